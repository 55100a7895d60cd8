"""Commands of the client, which stand between statements of SQL: ``HELP``, ``CLEAR``, ``QUIT``."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from headrace.table.parse.tokens import END, tokenize


class ClientCommand(Enum):
    """A command of the client."""

    HELP = "HELP"
    """Show what can be typed."""
    CLEAR = "CLEAR"
    """Clear the screen."""
    QUIT = "QUIT"
    """Leave; statements that follow are not executed. ``EXIT`` is the same."""


COMMANDS: Final = {each.value: each for each in ClientCommand} | {"EXIT": ClientCommand.QUIT}
"""The commands by their words."""


HELP: Final = """\
A statement ends with a semicolon, and may have several lines. Ctrl-C stops a query, Ctrl-D leaves.

  SHOW TABLES; DESCRIBE t;                       what there is
  CREATE TABLE t (...) WITH (...);               docs/sql-connectors.md
  SELECT ...; INSERT INTO t SELECT ...;          queries, and jobs
  EXPLAIN SELECT ...;                            how a query is executed
  SET 'sql-client.execution.result-mode' = 'tableau' | 'table' | 'changelog';
  HELP; CLEAR; QUIT;
"""


_NOT_NEWLINE: Final = re.compile(r"[^\n]")


class Commands(NamedTuple):
    """A script without its commands.

    Attributes:
        text: the script, in which blanks stand for commands: places of statements are those in the script.
        found: the commands, with the places where they stood.
    """

    text: str
    found: list[tuple[int, ClientCommand]]


def without_commands(text: str) -> Commands:
    """Take the commands out of a script; a command is a statement of one word."""
    tokens = list(tokenize(text))
    found = []
    for place, token in enumerate(tokens):
        command = COMMANDS.get(token.text.upper())
        begins = place == 0 or tokens[place - 1].kind == ";"
        if command is None or not begins or tokens[place + 1].kind not in (";", END):
            continue
        end = tokens[place + 1].end
        found.append((token.start, command))
        text = f"{text[: token.start]}{_NOT_NEWLINE.sub(' ', text[token.start : end])}{text[end:]}"
    return Commands(text, found)
