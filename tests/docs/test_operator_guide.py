"""The operator that the guide writes works, and so does the test that the guide writes for it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from headrace.runtime.task import operator_table
from tests.docs.documents import DOCS, example

GUIDE = DOCS / "writing-an-operator.md"


@pytest.fixture
def guide(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with the code of the guide; the harness pickles what is in it."""
    monkeypatch.setattr(operator_table, "_MAKERS", dict(operator_table._MAKERS))
    module = ModuleType("operator_guide")
    monkeypatch.setitem(sys.modules, "operator_guide", module)
    for name in ("operator", "test"):
        exec(compile(example(GUIDE, name), f"{GUIDE}: {name}", "exec", dont_inherit=True), module.__dict__)
    return module


def test_the_guides_own_test(guide: ModuleType) -> None:
    guide.test_the_first_record_of_each_key_comes_through()
