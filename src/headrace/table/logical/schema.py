"""The columns of a relation: names, types, and time attributes; and names made unique."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final

from headrace.common.logical_types import LogicalType, RowType


class TimeAttribute(Enum):
    """The kinds of time attributes.

    The value is Flink's name for it in types.
    """

    ROWTIME = "*ROWTIME*"
    PROCTIME = "*PROCTIME*"


@dataclass(frozen=True, slots=True)
class Field:
    """A column. ``str()`` of a schema shows it as ``DESCRIBE`` and plans do."""

    name: str
    type: LogicalType
    time: TimeAttribute | None = None

    def named(self, name: str) -> "Field":
        """The same column by another name."""
        return self if name == self.name else replace(self, name=name)

    def materialized(self) -> "Field":
        """The same column, no longer a time attribute."""
        return self if self.time is None else replace(self, time=None)

    def without_clock(self) -> "Field":
        """The same column, materialized if it is the processing time."""
        return self.materialized() if self.time is TimeAttribute.PROCTIME else self

    def as_nullable(self) -> "Field":
        """The same column, nullable."""
        return self if self.type.nullable else replace(self, type=self.type.as_nullable())

    @property
    def type_text(self) -> str:
        """The type as Flink shows it: ``TIMESTAMP(3) NOT NULL *ROWTIME*``."""
        return type_text(self.type, self.time)


@dataclass(frozen=True)
class Schema:
    """The columns of a relation, in order. Names may repeat within a query; a table has each once."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, fields: Iterable[Field]) -> "Schema":
        """A schema of these columns."""
        return cls(tuple(fields))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def types(self) -> tuple[LogicalType, ...]:
        """The types of the columns."""
        return tuple(field.type for field in self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    def __add__(self, other: "Schema") -> "Schema":
        return Schema(self.fields + other.fields)

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {field.type_text}" for field in self.fields)

    def index(self, name: str) -> int:
        """The index of the first column of a name.

        Raises:
            ValueError: when there is none.
        """
        return self.names.index(name)

    def renamed(self, names: Iterable[str]) -> "Schema":
        """The same columns by other names."""
        return Schema(tuple(field.named(name) for field, name in zip(self.fields, names, strict=True)))

    def row_type(self) -> RowType:
        """The type of a row; the names have to be different."""
        return RowType(self.names, self.types)


def type_text(kind: LogicalType, time: TimeAttribute | None) -> str:
    """A type as Flink shows it, with the mark of a time attribute."""
    return str(kind) if time is None else f"{kind} {time.value}"


_GENERATED: Final = re.compile(r"\$f\d+")


def renumbered(names: Sequence[str], first: int) -> tuple[str, ...]:
    """The names, where generated ones (``$f3``) have the number of their column; the first column's is given."""
    return tuple(f"$f{at}" if _GENERATED.fullmatch(name) else name for at, name in enumerate(names, first))


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, made unique by appending the lowest number that makes a duplicate new."""
    taken: dict[str, None] = {}
    for name in names:
        found, number = name, 0
        while found in taken:
            found, number = f"{name}{number}", number + 1
        taken[found] = None
    return tuple(taken)
