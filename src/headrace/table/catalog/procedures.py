"""Procedures, which ``CALL`` runs: their parameters, and the columns of their results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.common.logical_types import LogicalType
from headrace.table.logical.schema import Schema

SYSTEM_DATABASE: Final = "sys"
"""The database of each catalog in which the procedures are that come with headrace and other distributions."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a procedure.

    Attributes:
        type: the type to which arguments are cast; not nullable where it takes no NULL.
        is_optional: whether it may be left out.
        default: its value where it is.
    """

    name: str
    type: LogicalType
    is_optional: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure.

    Attributes:
        parameters: in their order.
        columns: those of the rows that it gives; None where it gives none.
        run: runs it with values of the parameters, and gives the rows.
    """

    name: str
    parameters: tuple[Parameter, ...]
    columns: Schema | None
    run: Callable[[Sequence[Any]], Iterable[tuple[Any, ...]]]

    @property
    def usage(self) -> str:
        """The signature: ``compact(table STRING, size BIGINT DEFAULT 1)``."""
        shown = ", ".join(map(_parameter_text, self.parameters))
        return f"{self.name}({shown})"


def _parameter_text(parameter: Parameter) -> str:
    text = f"{parameter.name} {parameter.type.as_nullable()}"
    return f"[{text}]" if parameter.is_optional else text


class Procedures(Protocol):
    """Procedures by name."""

    def names(self) -> list[str]:
        """Their names, sorted."""
        ...

    def get(self, name: str) -> Procedure | None:
        """The procedure of a name, in any case; None where there is none.

        Raises:
            InvalidProgramError: when it cannot be imported, or is no procedure.
        """
        ...


class NoProcedures:
    """Stands for the procedures of sessions that have none."""

    @staticmethod
    def names() -> list[str]:
        return []

    @staticmethod
    def get(name: str) -> Procedure | None:
        del name
        return None
