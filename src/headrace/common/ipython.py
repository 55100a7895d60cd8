"""IPython, where a program runs in it; headrace neither needs nor imports it elsewhere."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

_LINE: Final = re.compile(r"([^\s()'\"]+):(\d+)")
"""A line of a file, as call sites are spelled."""


def shell() -> Any:
    """The shell of IPython that the program runs in; None elsewhere."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_notebook() -> bool:
    """Whether the program runs in the kernel of a notebook, rather than on a terminal, with IPython or without."""
    return hasattr(shell(), "kernel")


def with_cells(text: str) -> str:
    """A text with the lines of cells as notebooks call them: ``cell In[3], line 2`` for ``/tmp/…/1409.py:2``."""
    compiler = getattr(shell(), "compile", None)
    label_of = getattr(compiler, "format_code_name", None)  # IPython 8
    if label_of is None:
        return text

    def named(line: re.Match[str]) -> str:
        label = label_of(line[1])
        return line[0] if label is None else f"{label[0].lower()} {label[1]}, line {line[2]}"

    return _LINE.sub(named, text)
