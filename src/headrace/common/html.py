"""What objects show of themselves in notebooks: a frame with a heading and a few facts, as HTML.

Styles are attributes and colours those of the page, so that it looks alike on light and dark pages, and where a page
takes style sheets away.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

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
