"""The tables in ``docs/sql-functions.md``, from the table of functions; ``python -m tests.docs.functions_table``."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.table.functions.aggregates import AGGREGATES
from headrace.table.functions.collections import COLLECTION_FUNCTIONS, JSON_FUNCTIONS
from headrace.table.functions.definitions import Determinism, FunctionDefinition
from headrace.table.functions.numbers import NUMBER_FUNCTIONS
from headrace.table.functions.operators import OPERATORS
from headrace.table.functions.texts import TEXT_FUNCTIONS
from headrace.table.functions.times import TIMES
from tests.docs.documents import DOCS

PAGE = DOCS / "sql-functions.md"

GROUPS: dict[str, Sequence[FunctionDefinition]] = {
    "operators": OPERATORS,
    "numbers": NUMBER_FUNCTIONS,
    "texts": TEXT_FUNCTIONS,
    "times": TIMES,
    "collections": COLLECTION_FUNCTIONS,
    "json": JSON_FUNCTIONS,
    "aggregates": AGGREGATES,
}

WORDS = {
    Determinism.ALWAYS: "",
    Determinism.WITHIN_QUERY: "one value in a bounded query",
    Determinism.NEVER: "another value for each row",
}


def table(group: str) -> str:
    """A row for each function that a program can call."""
    rows = [("function", "written", "")]
    shown = sorted((each for each in GROUPS[group] if not each.name.startswith("$")), key=lambda each: each.name)
    rows += [(f"`{_cell(each.name)}`", _usage(each), WORDS[each.determinism]) for each in shown]
    head, *body = (f"| {' | '.join(row)} |\n" for row in rows)
    return "".join([head, "|---|---|---|\n", *body])


def _usage(function: FunctionDefinition) -> str:
    return f"`{_cell(function.usage or function.name)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    text = PAGE.read_text()
    for group in GROUPS:
        before, rest = text.split(f"<!-- {group} -->\n", 1)
        _, after = rest.split(f"<!-- /{group} -->", 1)
        text = f"{before}<!-- {group} -->\n{table(group)}<!-- /{group} -->{after}"
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
