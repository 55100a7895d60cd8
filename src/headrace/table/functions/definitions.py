"""Definitions of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from headrace.common.logical_types import LogicalType
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.python.decorators import UserFunction
from headrace.table.logical.scalars import Options, Scalar


class Determinism(Enum):
    """The determinism of a function."""

    ALWAYS = "always"
    WITHIN_QUERY = "within a query"
    """One value for all rows of a bounded query, and one a row in streaming: ``CURRENT_TIMESTAMP``."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class CallShape:
    """The view that a type rule has of a call.

    Attributes:
        operands: the arguments, before any of them is cast.
        options: as in :class:`~headrace.table.logical.scalars.Call`.
        is_grouped: whether an aggregate has groups, without which it is NULL over no rows.
    """

    operands: tuple[Scalar, ...]
    options: Options = ()
    is_grouped: bool = True

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """The types of the arguments."""
        return tuple(operand.type for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a call: the types to which its arguments are cast, and the type of its result."""

    operands: tuple[LogicalType, ...]
    result: LogicalType


TypeRule = Callable[[CallShape], Signature | None]
"""The signature of a call; None when the function does not take such arguments."""

Kernel = Callable[..., Any]
"""Computes a scalar function of whole columns: Arrow arrays or scalars."""


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A function by its name.

    Attributes:
        name: its name in upper case; for an operator, Calcite's name.
        types: its type rule.
        counts: the minimum and maximum number of arguments; None for no limit.
        kernel: the kernel of a scalar function.
        usage: its signature for messages and the reference page: ``SUBSTRING(text, start[, length])``.
        user: the Python function behind a user-defined one.
        late: the type rule of calls that are refused only when they are planned, as in Flink.
        path: where a user-defined one is registered: catalog, database and name, or the name of a system function.
    """

    name: str
    types: TypeRule
    kind: FunctionKind = FunctionKind.SCALAR
    counts: tuple[int, int | None] = (0, None)
    determinism: Determinism = Determinism.ALWAYS
    kernel: Kernel | None = None
    usage: str = ""
    user: UserFunction | None = None
    late: TypeRule | None = None
    path: tuple[str, ...] = ()

    @property
    def options(self) -> Options:
        """The option that carries a user-defined function in calls; built-in functions are found by name."""
        return () if self.user is None else ((USER_FUNCTION, self),)


USER_FUNCTION: Final = "user function"
"""The option of calls that has the definition of a user-defined function."""


class FunctionTable:
    """Functions by their names, whatever the case."""

    def __init__(self, *groups: Sequence[FunctionDefinition]) -> None:
        self._by_name: dict[str, FunctionDefinition] = {}
        for definition in (each for group in groups for each in group):
            assert definition.name not in self._by_name, f"{definition.name} is defined twice"
            self._by_name[definition.name] = definition

    def get(self, name: str) -> FunctionDefinition | None:
        """The function of a name; None when there is none."""
        return self._by_name.get(name.upper())

    def __getitem__(self, name: str) -> FunctionDefinition:
        return self._by_name[name.upper()]

    def __contains__(self, name: str) -> bool:
        return name.upper() in self._by_name

    def names(self) -> list[str]:
        """The names of all functions, sorted."""
        return sorted(self._by_name)
