"""What commands print: on a terminal tables wrap, in pipes, files and notebooks they are as wide as they need be."""

from __future__ import annotations

import os
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

_NO_LIMIT: Final = 10_000
"""So wide is what is no terminal, and says no width by ``COLUMNS``: nobody cuts what other programs are to read."""


def output() -> Console:
    """Where a command prints what it was asked for."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=_NO_LIMIT)


def new_table(*columns: str) -> Table:
    """A table without rows; what is too long for its column goes on in the next line, and is never cut.

    Args:
        columns: their headings, shown as they are, brackets included.
    """
    return Table(*(Column(Text(column), overflow="fold") for column in columns), box=SIMPLE_HEAD, pad_edge=False)
