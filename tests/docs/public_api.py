"""What is public: the modules that say so, and the names in them."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from typing import Any

from tests.docs.documents import ROOT

SOURCE = ROOT / "src"
ERRORS = "headrace.common.errors"
"""Public as a whole, with a page of its own in the reference."""


@cache
def modules() -> tuple[str, ...]:
    """The modules that call ``public_module(__name__)``."""
    files = sorted(
        path for path in SOURCE.rglob("*.py") if re.search(r"^public_module\(__name__", path.read_text(), re.MULTILINE)
    )
    return tuple(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for path in files)


@cache
def names() -> dict[str, Any]:
    """What stands for each public path."""
    return {
        f"{module}.{name}": getattr(import_module(module), name)
        for module in modules()
        for name in import_module(module).__all__
    }


@cache
def documentation() -> dict[str, str]:
    """What is said of each public class and function, by where it is defined."""
    found = [value for value in names().values() if inspect.isclass(value) or inspect.isfunction(value)]
    return {f"{each.__module__}.{each.__qualname__}": each.__doc__ or "" for each in found}
