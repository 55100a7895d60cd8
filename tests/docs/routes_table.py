"""The table of paths in ``docs/rest.md``, from the table of routes; ``python -m tests.docs.routes_table`` writes it."""

from __future__ import annotations

from headrace.server.routes import ROUTES
from tests.docs.documents import DOCS

PAGE = DOCS / "rest.md"

START, END = "<!-- paths -->\n", "<!-- /paths -->"


def table() -> str:
    """One row for each route, sorted by path."""
    rows = [
        f"| `{route.method} {route.path}{_query(route.query)}` | {_sentence(route.about)} |"
        for route in sorted(ROUTES, key=lambda route: (route.path, route.method))
    ]
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _query(names: tuple[str, ...]) -> str:
    return f"?{'&'.join(names)}" if names else ""


def _sentence(about: str) -> str:
    """What it answers with, without the verb that all of them have."""
    text = about.removeprefix("Return ").rstrip(".")
    return text[:1].lower() + text[1:]


def main() -> None:
    before, rest = PAGE.read_text().split(START, 1)
    PAGE.write_text(before + START + table() + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
