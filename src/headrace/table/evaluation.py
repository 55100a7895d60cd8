"""Scalars of SQL as bound expressions, which the engine of ``col()`` evaluates.

The functions are those of SQL's table, whose kernels follow Java: integers wrap around, decimals are rounded half up,
what has too many digits is NULL.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from headrace.common.errors import EvaluationError, InvalidProgramError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.common.typeinfo.types import type_of_logical
from headrace.expressions.evaluation import (
    Bound,
    BoundCase,
    BoundColumn,
    BoundConstant,
    BoundField,
    BoundLogic,
    Datum,
    no_value,
)
from headrace.table.functions.definitions import USER_FUNCTION, FunctionDefinition
from headrace.table.functions.kernels import decimals
from headrace.table.functions.kernels.casts import cast, has_cast
from headrace.table.functions.kernels.kernel import Invocation, Kernel
from headrace.table.functions.python.calls import UserCall
from headrace.table.functions.table import is_deterministic, kernel_of
from headrace.table.functions.types import NUMERICS, is_in, root_of
from headrace.table.logical.errors import NoCastError
from headrace.table.logical.scalars import Branch, Call, Case, Cast, FieldAccess, InputRef, Literal, Scalar

_TOTAL: Final = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "IN", "NOT", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "IS NULL", "IS NOT NULL"}
)
"""Functions that have a value, NULL perhaps, whatever they are applied to."""
_WITHOUT_ESCAPE = _OF_TWO = 2


@dataclass(frozen=True, slots=True)
class BoundSqlCall(Bound):
    """A function of SQL.

    Attributes:
        function: its name in the table of functions.
        invocation: the arguments of the kernel besides columns.
        arguments: what it is applied to.
        at: its place in the statement, for messages; empty where it is not known.
    """

    function: str
    invocation: Invocation
    arguments: tuple[Bound, ...]
    at: str = field(default="", compare=False)

    @property
    def is_total(self) -> bool:
        return self.function in _TOTAL or (self.function == "LIKE" and len(self.arguments) == _WITHOUT_ESCAPE)

    def compute(self, batch: pa.RecordBatch) -> Datum:
        arguments = [argument.compute(batch) for argument in self.arguments]
        kernel = kernel_of(self.function)
        assert kernel is not None, f"{self.function} has no kernel"
        return _computed(self, kernel, self.invocation, arguments)


@dataclass(frozen=True, slots=True)
class BoundDecimals(Bound):
    """Sums, differences and products of decimals, which are integers of 64 bits from the first to the last of them.

    Attributes:
        plain: the same function by function, for operands that are too large.
    """

    plain: BoundSqlCall

    @property
    def is_total(self) -> bool:
        return False

    def compute(self, batch: pa.RecordBatch) -> Datum:
        operands: list[Datum] = []
        found = _integers_of(self.plain, batch, operands) if batch.num_rows else None
        if found is None:
            return self.plain.compute(batch)
        return decimals.decimals_of(found, self.plain.invocation.storage, *operands)


def _integers_of(call: BoundSqlCall, batch: pa.RecordBatch, operands: list[Datum]) -> decimals.DecimalIntegers | None:
    """The digits of a result; None where 64 bits do not hold what comes between. Adds the operands."""
    found = list[decimals.DecimalIntegers]()
    for argument in call.arguments:
        if isinstance(argument, BoundDecimals):
            one = _integers_of(argument.plain, batch, operands)
        else:
            operands.append(decimals.as_decimal(argument.compute(batch)))
            one = decimals.DecimalIntegers.of(operands[-1])
        if one is None:
            return None
        found.append(one)
    storage = call.invocation.storage
    made = found[0].combined(call.function, found[1], storage.scale)
    return made if made is not None and made.most < 10**storage.precision else None


@dataclass(frozen=True, slots=True)
class BoundSqlCast(Bound):
    """``CAST`` or ``TRY_CAST``."""

    invocation: Invocation
    argument: Bound
    at: str = field(default="", compare=False)

    @property
    def is_total(self) -> bool:
        return False

    def compute(self, batch: pa.RecordBatch) -> Datum:
        argument = self.argument.compute(batch)
        try:
            return _computed(self, cast, self.invocation, [argument])
        except EvaluationError as error:
            if not self.text.startswith("CAST("):  # an implicit cast
                raise
            raise EvaluationError(f"{error}: TRY_CAST gives NULL instead") from error.__cause__


def _computed(
    expression: BoundSqlCall | BoundSqlCast, kernel: Kernel, invocation: Invocation, arguments: Sequence[Datum]
) -> Datum:
    try:
        made = kernel(invocation, *arguments)
        storage = invocation.storage
        return made if made.type.equals(storage) else made.cast(storage)
    except pa.ArrowException as error:
        raise _placed(no_value(expression, error), expression.at) from error
    except ValueError as error:
        raise _placed(EvaluationError(f"{expression.text}: {error}"), expression.at) from error


def _placed(error: EvaluationError, at: str) -> EvaluationError:
    return EvaluationError(f"{error} (at {at})") if at else error


Describe = Callable[[Scalar], str]
"""The text of a scalar in messages."""


@dataclass(frozen=True)
class ExpressionCompiler:
    """Compiles scalars over the columns of one input.

    Attributes:
        describe: the text of a scalar in messages.
        time_zone: ``table.local-time-zone``.
    """

    describe: Describe
    time_zone: str = "UTC"

    def compile(self, scalar: Scalar) -> Bound:
        """The bound expression of a scalar.

        Raises:
            InvalidProgramError: when there is nothing that computes it.
        """
        compiler = self._compilers.get(type(scalar))
        if compiler is None:
            raise InvalidProgramError(f"{self.describe(scalar)} cannot be executed yet where it stands")
        return compiler(scalar)

    @cached_property
    def _compilers(self) -> dict[type[Scalar], Callable[[Any], Bound]]:
        return {
            InputRef: self._input,
            Literal: self._literal,
            Call: self._call,
            Cast: self._cast,
            Case: self._case,
            FieldAccess: self._field,
        }

    def _input(self, scalar: InputRef) -> Bound:
        return BoundColumn(self.describe(scalar), type_of_logical(scalar.type), scalar.index)

    def _literal(self, scalar: Literal) -> Bound:
        value = pa.scalar(scalar.value, scalar.type.arrow_type)
        return BoundConstant(self.describe(scalar), type_of_logical(scalar.type), value)

    def _call(self, scalar: Call) -> Bound:
        kind, text = type_of_logical(scalar.type), self.describe(scalar)
        user: FunctionDefinition | None = scalar.option(USER_FUNCTION)
        if user is not None and user.user is not None:
            operands = tuple(operand.type for operand in scalar.operands)
            arguments = tuple(map(self.compile, scalar.operands))
            return UserCall(text, kind, user.user, operands, scalar.type, arguments)
        if scalar.function == "PROCTIME":  # it marks a column whose values are not used
            return BoundConstant(text, kind, pa.scalar(None, scalar.type.arrow_type))
        if scalar.function in ("AND", "OR"):
            members = _members(scalar)
            if members is not None:
                found = Call("IN", members, type=scalar.type)
                return self.compile(found if scalar.function == "OR" else Call("NOT", (found,), type=scalar.type))
            conditions = tuple(map(self.compile, scalar.operands))
            return BoundLogic(text, kind, scalar.function == "AND", conditions, not is_deterministic(scalar))
        if scalar.function in _AS_CASE:
            return self._case(_AS_CASE[scalar.function](scalar))
        invocation = self._invocation(scalar.type, scalar.operands, scalar.options)
        computed = tuple(map(self.compile, scalar.operands))
        call = BoundSqlCall(text, kind, scalar.function, invocation, computed, scalar.at)
        is_arithmetic = scalar.function in decimals.BY_INTEGERS and len(computed) == _OF_TWO
        return BoundDecimals(text, kind, call) if is_arithmetic and root_of(scalar.type) is TypeRoot.DECIMAL else call

    def _cast(self, scalar: Cast) -> Bound:
        argument = self.compile(scalar.operand)
        if not has_cast(scalar.operand.type, scalar.type):
            raise _no_cast(self.describe(scalar), scalar.operand.type, scalar.type)
        options = (("is_try", True),) if scalar.is_try else ()
        invocation = self._invocation(scalar.type, (scalar.operand,), options)
        return BoundSqlCast(self.describe(scalar), type_of_logical(scalar.type), invocation, argument, scalar.at)

    def _invocation(
        self, result: LogicalType, operands: Sequence[Scalar], options: tuple[tuple[str, Any], ...]
    ) -> Invocation:
        names = tuple((name, value.name if isinstance(value, Enum) else value) for name, value in options)
        return Invocation(tuple(operand.type for operand in operands), result, names, self.time_zone)

    def _case(self, scalar: Case) -> Bound:
        branches = tuple(
            (self.compile(branch.condition), self._as(branch.result, scalar.type)) for branch in scalar.branches
        )
        default = self._as(scalar.otherwise, scalar.type)
        return BoundCase(self.describe(scalar), type_of_logical(scalar.type), branches, default)

    def _as(self, scalar: Scalar, wanted: LogicalType) -> Bound:
        """A scalar as one of a type, whether NULL is among its values or not."""
        same = scalar.type.as_nullable() == wanted.as_nullable()
        return self.compile(scalar if same else Cast(scalar, type=wanted))

    def _field(self, scalar: FieldAccess) -> Bound:
        argument = self.compile(scalar.operand)
        return BoundField(self.describe(scalar), type_of_logical(scalar.type), argument, scalar.index)


_INSTEAD: Final[dict[tuple[bool, TypeRoot | None], str]] = {
    (True, TypeRoot.TIMESTAMP_LTZ): "write TO_TIMESTAMP_LTZ(number, precision)",
    (True, TypeRoot.TIMESTAMP): "write TO_TIMESTAMP(FROM_UNIXTIME(seconds))",
    (False, TypeRoot.TIMESTAMP): "write UNIX_TIMESTAMP(CAST(time AS STRING))",
    (False, TypeRoot.TIMESTAMP_LTZ): "write EXTRACT(EPOCH FROM time)",
}
"""The function to use in place of a cast between a number and a time, by the direction and the type of the time."""


def _no_cast(text: str, source: LogicalType, target: LogicalType) -> InvalidProgramError:
    message = f"{text}: a value of type {source} cannot be cast to {target}"
    advice = None
    if is_in(source, NUMERICS) or is_in(target, NUMERICS):
        moment = target if is_in(source, NUMERICS) else source
        advice = _INSTEAD.get((moment is target, root_of(moment)))
    return NoCastError(f"{message}: {advice}") if advice else InvalidProgramError(message)


_FEW: Final = 4
"""Sets of at least this size are searched by hash, which is then faster than comparing with each member."""


def _members(call: Call) -> tuple[Scalar, ...] | None:
    """The value and the members of ``IN``, which the binder makes comparisons of; None where it is something else."""
    wanted = "=" if call.function == "OR" else "<>"
    pairs = [each.operands for each in call.operands if isinstance(each, Call) and each.function == wanted]
    if len(pairs) < len(call.operands) or len(pairs) < _FEW:
        return None
    value = pairs[0][0]
    kind = value.type.as_nullable()
    for other, member in pairs:
        if other != value or not isinstance(member, Literal) or member.type.as_nullable() != kind:
            return None
    return value, *(member for _, member in pairs)


def _if(call: Call) -> Case:
    condition, result, otherwise = call.operands
    return Case((Branch(condition, result),), otherwise, type=call.type)


def _nullif(call: Call) -> Case:
    value, other = call.operands
    equal = Call("=", (value, other), type=AtomicType(TypeRoot.BOOLEAN))
    return Case((Branch(equal, Literal(None, type=value.type.as_nullable())),), value, type=call.type)


_AS_CASE: Final[dict[str, Callable[[Call], Case]]] = {"IF": _if, "NULLIF": _nullif}
"""Functions that are ``CASE`` in another form, so that what is not taken is not computed."""
