"""The examples in the docstrings of ``headrace.windowing``."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import headrace.windowing

MODULES = [module.name for module in pkgutil.walk_packages(headrace.windowing.__path__, "headrace.windowing.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
