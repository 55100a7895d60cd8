"""The table in ``docs/damage.md``; ``python -m tests.docs.damage_table`` writes it anew."""

from __future__ import annotations

from tests.docs.documents import DOCS
from tests.reliability.support.damage_table import DAMAGES, SAVEPOINTS, STAGED, TABLE

PAGE = DOCS / "damage.md"
NAME = "damage"

KINDS = TABLE | {"staged messages": STAGED} | SAVEPOINTS
"""All that the table tells of."""

WORDS = {
    "CheckpointError": "checkpoint",
    "StateCorruptedError": "state",
    "CommitRefusedError": "commit",
    "SavepointError": "savepoint",
}
"""What the table says of an error."""


def table() -> str:
    """A row for each kind of file."""
    rows = [["", *DAMAGES], ["---"] * (1 + len(DAMAGES))]
    rows += [[kind, *map(_cell, outcomes)] for kind, outcomes in KINDS.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("| --- ", "|---").replace("--- |", "---|")


def _cell(outcome: str) -> str:
    return " or ".join(WORDS.get(word, word) for word in outcome.split(" or "))


def main() -> None:
    before, rest = PAGE.read_text().split(f"<!-- {NAME} -->\n", 1)
    _, after = rest.split(f"<!-- /{NAME} -->", 1)
    PAGE.write_text(f"{before}<!-- {NAME} -->\n{table()}<!-- /{NAME} -->{after}")


if __name__ == "__main__":
    main()
