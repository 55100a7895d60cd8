"""Expressions of SQL that are drawn at random, each in Flink's dialect and in DuckDB's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple


class Text(NamedTuple):
    """SQL in both dialects."""

    flink: str
    duck: str


def text(template: str, *parts: Text, duck: str | None = None) -> Text:
    """Texts in a template, which is the same in both dialects unless another one is given."""
    return Text(
        template.format(*(part.flink for part in parts)),
        (duck or template).format(*(part.duck for part in parts)),
    )


class Column(NamedTuple):
    """A column: its name, and what may be done with it."""

    name: str
    kind: str

    @property
    def text(self) -> Text:
        return Text(self.name, self.name)


@dataclass
class Expressions:
    """Draws expressions over columns."""

    chance: Random
    columns: list[Column]

    def draw(self, kind: str, depth: int = 2) -> Text:
        """An expression of a kind."""
        here = [column.text for column in self.columns if column.kind == kind]
        forms = FORMS[kind]
        if here and (depth == 0 or self.chance.random() < 0.4):
            return self.chance.choice(here)
        if depth == 0 or kind == "edge":
            return Text(*[self.chance.choice(LITERALS[kind])] * 2)
        if self.chance.random() < 0.25:
            return self._chosen(kind, depth)
        return self.chance.choice(forms)(self, depth - 1)

    def _chosen(self, kind: str, depth: int) -> Text:
        one, other = self.draw(kind, depth - 1), self.draw(kind, depth - 1)
        template = self.chance.choice(
            ["CASE WHEN {0} THEN {1} ELSE {2} END", "CASE WHEN {0} THEN {1} END", "COALESCE({1}, {2})",
             "NULLIF({1}, {2})", "CASE {1} WHEN {2} THEN {1} WHEN {1} THEN {2} END"]
        )  # fmt: skip
        return text(template, self.draw("bool", depth - 1), one, other)

    def comparable(self, depth: int) -> tuple[Text, Text]:
        kind = self.chance.choice([column.kind for column in self.columns] or ["int"])
        if kind == "edge":
            column = self.chance.choice([column for column in self.columns if column.kind == kind])
            return column.text, column.text
        kind = "int" if kind == "time" else kind
        return self.draw(kind, depth), self.draw(kind, depth)


Form = Callable[[Expressions, int], Text]

LITERALS: Final = {
    "int": ["0", "1", "-3", "7", "1000"],
    "dec": ["CAST(1.250 AS DECIMAL(20, 3))", "CAST(-0.001 AS DECIMAL(20, 3))", "CAST(0 AS DECIMAL(20, 3))"],
    "str": ["'a'", "'aB'", "''", "'it''s'", "'日本'"],
    "date": ["DATE '2024-02-29'", "DATE '1970-01-01'"],
    "bool": ["TRUE", "FALSE"],
}


def _of(template: str, *kinds: str, duck: str | None = None) -> Form:
    def form(drawn: Expressions, depth: int) -> Text:
        return text(template, *(drawn.draw(kind, depth) for kind in kinds), duck=duck)

    return form


def _compared(template: str) -> Form:
    def form(drawn: Expressions, depth: int) -> Text:
        return text(template, *drawn.comparable(depth))

    return form


FORMS: Final[dict[str, list[Form]]] = {
    "int": [
        _of("({0} + {1})", "int", "int"),
        _of("({0} - {1})", "int", "int"),
        _of("(MOD({0}, 1000) * MOD({1}, 1000))", "int", "int"),
        _of("({0} / NULLIF({1}, 0))", "int", "int", duck="({0} // NULLIF({1}, 0))"),
        _of("MOD({0}, NULLIF({1}, 0))", "int", "int"),
        _of("ABS({0})", "int"),
        _of("(- {0})", "int"),
        _of("CAST(CHAR_LENGTH({0}) AS BIGINT)", "str", duck="length({0})"),
        _of("CAST(POSITION({0} IN {1}) AS BIGINT)", "str", "str", duck="CAST(position({0} IN {1}) AS BIGINT)"),
        _of("EXTRACT(YEAR FROM {0})", "date"),
        _of("EXTRACT(DAY FROM {0})", "date"),
        _of("CAST({0} AS BIGINT)", "bool"),
        _of("CAST(CAST({0} AS STRING) AS BIGINT)", "int"),
        _of("CAST(FLOOR({0}) AS BIGINT)", "dec"),
        _of("CAST({0} AS BIGINT)", "dec", duck="CAST(trunc({0}) AS BIGINT)"),
    ],
    "dec": [
        _of("CAST({0} + {1} AS DECIMAL(20, 3))", "dec", "dec"),
        _of("CAST({0} - {1} AS DECIMAL(20, 3))", "dec", "dec"),
        _of("CAST(MOD({0}, 1000) AS DECIMAL(20, 3))", "int"),
        _of("ABS({0})", "dec"),
        _of("(- {0})", "dec"),
    ],
    "str": [
        _of("({0} || {1})", "str", "str"),
        _of("UPPER({0})", "str"),
        _of("LOWER({0})", "str"),
        _of("SUBSTRING({0}, 2, 3)", "str"),
        _of("TRIM({0})", "str"),
        _of("REPLACE({0}, 'a', 'bc')", "str"),
        _of("CAST({0} AS STRING)", "int"),
        _of("CAST({0} AS STRING)", "date"),
        _of("CAST({0} AS STRING)", "dec"),
        _of("LEFT({0}, 2)", "str"),
    ],
    "date": [
        _of("({0} + INTERVAL '3' DAY)", "date", duck="CAST({0} + INTERVAL 3 DAY AS DATE)"),
        _of("({0} - INTERVAL '1' MONTH)", "date", duck="CAST({0} - INTERVAL 1 MONTH AS DATE)"),
        _of("CAST(CAST({0} AS STRING) AS DATE)", "date"),
    ],
    "bool": [
        *[_compared(f"({{0}} {sign} {{1}})") for sign in ("=", "<>", "<", "<=", ">", ">=")],
        _compared("({0} IS DISTINCT FROM {1})"),
        _compared("({0} IS NOT DISTINCT FROM {1})"),
        _compared("({0} IS NULL OR {1} IS NOT NULL)"),
        _of("({0} AND {1})", "bool", "bool"),
        _of("({0} OR {1})", "bool", "bool"),
        _of("(NOT {0})", "bool"),
        _of("({0} IS TRUE)", "bool"),
        _of("({0} IS NOT FALSE)", "bool", duck="({0} IS DISTINCT FROM FALSE)"),
        _of("({0} IN (1, 2, 5, -1))", "int"),
        _of("({0} NOT IN (1, 2, 5, NULLIF({1}, 1)))", "int", "int"),
        _of("({0} BETWEEN {1} AND {2})", "int", "int", "int"),
        _of("({0} NOT BETWEEN {1} AND {2})", "date", "date", "date"),
        _of("({0} LIKE '%a%')", "str"),
        _of("({0} NOT LIKE 'a_')", "str"),
        _of("({0} IN ('a', 'b', ''))", "str"),
    ],
}
