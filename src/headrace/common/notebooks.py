"""Notebooks: IPython, where a program runs in it, and what cells show as HTML."""

import re
import sys
from collections.abc import Mapping
from html import escape
from typing import Any, Final

_LINE: Final = re.compile(r"([^\s()'\"]+):(\d+)")
"""A line of a file, as call sites are spelled."""


def shell() -> Any:
    """The shell of IPython that the program runs in; None elsewhere."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_notebook() -> bool:
    """Return whether the program runs in the kernel of a notebook, and not on a terminal, with IPython or without."""
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


_FRAME: Final = (
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:8px 14px 10px;margin:4px 0;display:inline-block;"
    "max-width:100%;box-sizing:border-box;overflow-x:auto;font-family:system-ui,-apple-system,'Segoe UI',sans-serif;"
    "font-size:13px;line-height:1.5"
)
_TERM: Final = "text-align:left;padding:0 18px 0 0;opacity:.7;font-weight:400;vertical-align:top;white-space:nowrap"
_VALUE: Final = "text-align:left;padding:0;white-space:pre-wrap"
_PLAIN: Final = "border:none;background:none"


def framed(heading: str, facts: Mapping[str, object], body: str = "") -> str:
    """A frame for a notebook.

    Args:
        heading: what it is.
        facts: what there is to say, as text; by their names.
        body: HTML that follows.
    """
    table = f'<table style="border-collapse:collapse;margin:2px 0;{_PLAIN}"><tbody>{_rows(facts)}</tbody></table>'
    parts = [f"<strong>{escape(heading)}</strong>", table if facts else "", body]
    return f'<div class="headrace" style="{_FRAME}">{"".join(parts)}</div>'


def _rows(facts: Mapping[str, object]) -> str:
    return "".join(
        f'<tr style="{_PLAIN}"><th scope="row" style="{_TERM};{_PLAIN}">{escape(name)}</th>'
        f'<td style="{_VALUE};{_PLAIN}">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )


def preformatted(text: str) -> str:
    """Text that keeps its lines."""
    return f'<pre style="margin:4px 0;background:none">{escape(text)}</pre>'
