"""Binding of calls to scalars whose type is that of the function's type rule."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from headrace.common.logical_types import AtomicType, IntervalType, LogicalType, TypeRoot
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.scopes import Scope
from headrace.table.functions.casts import is_castable
from headrace.table.functions.definitions import CallShape, FunctionDefinition
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import (
    BOOLEAN,
    CHARACTERS,
    DATETIMES,
    INTEGERS,
    NUMERICS,
    STRING,
    decimal,
    is_in,
    root_of,
    timestamp,
    to_external,
    with_nullability,
)
from headrace.table.logical.scalars import (
    Call,
    Cast,
    Frame,
    FrameBound,
    FrameBoundKind,
    Literal,
    Options,
    OrderKey,
    OverCall,
    Scalar,
)
from headrace.table.logical.schema import TimeAttribute
from headrace.table.parse.dialects import function_advice
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree.node import Name, SqlNode

_COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_ORDERS: Final = frozenset({"<", "<=", ">", ">="})
_ANY_DECIMAL: Final = decimal(38, 18)
_TIMELESS: Final = frozenset({"CURRENT_WATERMARK"})
_FRACTIONS_IN_ORDER: Final = ("PERCENTILE_CONT", "PERCENTILE_DISC")
"""Functions that Flink validates, and does not plan."""

_SYMBOLS: Final = frozenset({"+", "-", "*", "/", "||", "AND", "OR", "NOT", "ITEM"})
"""Entries of the function table that are operators, and cannot be called by name."""

_WINDOW_PARTS: Final = frozenset(
    f"{window}_{part}" for window in ("TUMBLE", "HOP", "SESSION") for part in ("START", "END", "ROWTIME", "PROCTIME")
)
_GROUP_WINDOWS: Final = frozenset({"$TUMBLE", "$HOP", "$SESSION"})
_WITH_OVER: Final = frozenset({"SELECT", "ORDER BY", "QUALIFY"})
"""The clauses in which OVER is allowed."""

_INFIX: Final = frozenset({"+", "-", "*", "/", "||", "AND", "OR", "LIKE", "SIMILAR TO"}) | _COMPARISONS


class CallBinder(ABC):
    """Binds calls of functions and operators, once their arguments are bound."""

    def __init__(self, context: BindContext, clause: str) -> None:
        self.context = context
        self.clause = clause
        self.scope: Scope
        self.windows: dict[str, sql.OverWindow]

    @abstractmethod
    def bind(self, node: sql.SqlExpression) -> Scalar:
        """The typed scalar that an expression means in the scope of the clause."""

    def bind_all(self, nodes: Sequence[sql.SqlExpression]) -> tuple[Scalar, ...]:
        """The typed scalars that expressions mean."""
        return tuple(map(self.bind, nodes))

    # --- calls of scalar functions -----------------------------------------------------------------------------------

    def call(self, name: str, operands: tuple[Scalar, ...], node: SqlNode, options: Options = ()) -> Scalar:
        """A call of a function in the function table.

        Raises:
            SqlValidationError: when the function does not take these arguments.
        """
        return self._call(FUNCTIONS[name], operands, node, options)

    def _call(
        self, function: FunctionDefinition, operands: tuple[Scalar, ...], node: SqlNode, options: Options
    ) -> Scalar:
        name, signature = function.name, function.types(CallShape(operands, options))
        if signature is None:
            if name in _COMPARISONS and len(operands) == 2 and self._is_comparable(operands):
                return self._uncomparable(name, operands, node)
            late = None if function.late is None else function.late(CallShape(operands, options))
            if late is not None:
                self.context.defer(node, *_refusal(function, operands))
                return Call(name, operands, type=late.result)
            self._not_applicable(function, operands, node)
        cast = tuple(map(self.implicit, operands, signature.operands))
        time = _time(name, operands, signature.result) if function.user is None else None
        at = self.context.place(node)
        return Call(name, cast, (*options, *function.options), type=signature.result, time=time, at=at)

    def implicit(self, operand: Scalar, kind: LogicalType) -> Scalar:
        """The operand, with an implicit cast when it is not of the type."""
        if with_nullability(kind, operand.type.nullable) == operand.type:
            return operand
        if isinstance(operand, Literal) and operand.value is None:
            return Literal(None, type=kind.as_nullable())
        if is_in(operand.type, CHARACTERS) and is_in(kind, DATETIMES - {TypeRoot.TIMESTAMP_LTZ}):
            return Cast(operand, True, type=kind.as_nullable(), is_implicit=True)  # another text is NULL, as in Flink
        return Cast(operand, type=with_nullability(kind, operand.type.nullable), is_implicit=True)

    def cast(self, operand: Scalar, kind: LogicalType, node: SqlNode, *, is_try: bool = False) -> Scalar:
        """``CAST(operand AS kind)``.

        Raises:
            SqlValidationError: when the types cannot be cast.
        """
        if not is_castable(operand.type, kind):
            raise self.context.error(node, f"a value of type {operand.type} cannot be cast to {kind}")
        nullable = operand.type.nullable or is_try or root_of(operand.type) is TypeRoot.NULL
        return Cast(operand, is_try, type=with_nullability(kind, nullable), at=self.context.place(node))

    def _is_comparable(self, operands: tuple[Scalar, ...]) -> bool:
        """Return whether the validator allows a comparison of two types, which execution may still not support."""
        left, right = (operand.type for operand in operands)
        others = NUMERICS | {TypeRoot.BOOLEAN}
        return (is_in(left, CHARACTERS) and is_in(right, others)) or (is_in(right, CHARACTERS) and is_in(left, others))

    def as_operand(self, item: Scalar, operand: Scalar) -> Scalar:
        """An item of ``IN``, cast to the type of the operand where Flink casts it.

        Casts are of a text among numbers, of a number among texts, and of a constant with a point among integers and
        floats: ``n IN (1.5)`` is true for the integer 1.
        """
        is_pointed = isinstance(item, Literal) and root_of(item.type) is TypeRoot.DECIMAL
        is_narrowed = is_pointed and is_in(operand.type, INTEGERS | {TypeRoot.FLOAT})
        is_cast = is_narrowed or self._is_comparable((item, operand))
        return self.implicit(item, operand.type) if is_cast else item

    def _as_numbers(self, operands: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """A text and a number, or a condition, with the text cast to the type of the other one."""
        kinds = [operand.type for operand in operands if not is_in(operand.type, CHARACTERS)]
        kind = _ANY_DECIMAL if root_of(kinds[0]) is TypeRoot.DECIMAL else kinds[0]
        return tuple(self.implicit(each, kind) if is_in(each.type, CHARACTERS) else each for each in operands)

    def _uncomparable(self, name: str, operands: tuple[Scalar, ...], node: SqlNode) -> Scalar:
        if name in _ORDERS:
            return self.call(name, self._as_numbers(operands), node)
        left, right = (operand.type.as_nullable() for operand in operands)
        text = f"{left} and {right} cannot be compared"
        self.context.defer(node, text, f"Write CAST(... AS {left}) or CAST(... AS {right}).")
        nullable = any(operand.type.nullable for operand in operands) and not name.startswith("IS ")
        return Call(name, operands, type=with_nullability(BOOLEAN, nullable))

    def _not_applicable(self, function: FunctionDefinition, operands: Sequence[Scalar], node: SqlNode) -> NoReturn:
        raise self.context.error(node, *_refusal(function, operands))

    def function_call(self, node: sql.SqlCall) -> Scalar:
        """A call as it is written."""
        if node.name in _WINDOW_PARTS:
            self.bind_all(node.arguments)
            self.context.defer(node, f"{node.name} needs GROUP BY {node.name.partition('_')[0]}(...)")
            return Literal(None, type=timestamp(3))
        if node.name == "CURRENT_DATABASE":
            return Literal(self.context.catalogs.database, type=STRING.not_null())
        function = self.lookup(node)
        if function.kind is FunctionKind.AGGREGATE:
            return self.aggregate(node, function)
        if function.kind is FunctionKind.OVER:
            raise self.context.error(node, f"{function.name} needs OVER (...)")
        if function.kind is FunctionKind.TABLE:
            raise self.context.error(
                node, f"{function.name} is a table function", f"Write FROM ..., LATERAL TABLE({function.name}(...))."
            )
        if function.name in _GROUP_WINDOWS and self.clause != "GROUP BY":
            raise self.context.error(node, f"{node.name}(...) stands in GROUP BY only", "Use TABLE(TUMBLE(...)).")
        if function.name == "JSON":
            advice = "Write PARSE_JSON(...) for a VARIANT."
            self.context.defer(node, "JSON(...) stands in JSON_OBJECT and JSON_ARRAY only", advice)
        self._no_clauses(node)
        operands, options = self.arguments(node)
        constant = _CONSTANTS.get(function.name)
        if function.name == "CURRENT_WATERMARK" and operands[:1] and operands[0].time is not TimeAttribute.ROWTIME:
            raise self.context.error(node, "CURRENT_WATERMARK takes a row time: a column with a watermark")
        if function.name == "NULLIF" and len(operands) == 2:
            self.call("=", operands, node)  # refuses what cannot be compared
        found = self._call(function, operands, node, options)
        return found if constant is None else constant(self.context, operands, found)

    def user_table_function(self, node: sql.SqlCall, function: FunctionDefinition) -> Call:
        """A call of a user-defined table function, whose value is an array of rows."""
        self._no_clauses(node)
        call = self._call(function, self.bind_all(node.arguments), node, ())
        assert isinstance(call, Call)
        return call

    def arguments(self, node: sql.SqlCall) -> tuple[tuple[Scalar, ...], Options]:
        """The operands of a call, and its options."""
        options: list[tuple[str, object]] = []
        operands: list[Scalar] = []
        for argument in node.arguments:
            if isinstance(argument, sql.UnitArgument):
                options.append(("unit", argument.unit))
            else:
                operands.append(self.bind(argument))
        return tuple(operands), tuple(options)

    def lookup(self, node: sql.SqlCall) -> FunctionDefinition:
        """The function that a call names."""
        found = self.context.function(node.function)
        if found is None and node.name in _FRACTIONS_IN_ORDER:
            raise self.context.unplanned(node, f"{node.name} is not supported", "Use PERCENTILE(number, fraction).")
        if found is None or found.name in _SYMBOLS or " " in found.name:
            advice = function_advice(node.name) or misspelt(node.name, self.context.function_names())
            raise self.context.error(node.function, f"no function '{node.function}' is known", advice)
        return found

    def _no_clauses(self, node: sql.SqlCall) -> None:
        if node.quantifier is not None or node.filter is not None or node.order_by:
            raise self.context.error(node, f"{node.name} is not an aggregate: it takes no DISTINCT, FILTER or ORDER BY")

    def aggregate(self, node: sql.SqlCall, function: FunctionDefinition) -> Scalar:
        """An aggregate, which only some clauses allow."""
        raise self.context.error(node, f"{function.name} is an aggregate, which {self.clause} cannot have")

    # --- OVER --------------------------------------------------------------------------------------------------------

    def over_call(self, node: sql.Over) -> Scalar:
        """``call OVER window``."""
        call = node.call
        function = self.lookup(call)
        if function.kind not in (FunctionKind.AGGREGATE, FunctionKind.OVER):
            raise self.context.error(call, f"{function.name} is not an aggregate: it cannot have OVER")
        if self.clause not in _WITH_OVER:
            raise self.context.error(node, f"OVER is not possible in {self.clause}", "Use a subquery, or QUALIFY.")
        if call.filter is not None:
            raise self.context.error(call.filter, "OVER takes no FILTER")
        if call.null_treatment is not None and function.name not in ("LAG", "LEAD"):
            raise self.context.error(call, f"{function.name} takes no {call.null_treatment.value}")
        window = self._window(node.window)
        operands = self.over_operands(call)
        for operand, argument in zip(operands, call.arguments, strict=False):
            if any(isinstance(each, OverCall) for each in operand.walk()):
                raise self.context.error(
                    argument, "OVER calls cannot be nested", "Compute the inner one in a subquery."
                )
        signature = function.types(CallShape(operands, is_grouped=True))
        if signature is None:
            self._not_applicable(function, operands, call)
        kind = signature.result
        if function.name in ("RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST") and not window.order_by:
            raise self.context.error(node, f"{function.name} needs ORDER BY in its window")
        frame = self._frame(window, function)
        return OverCall(
            function.name,
            tuple(map(self.implicit, operands, signature.operands)),
            self.bind_all(window.partition_by),
            tuple(map(self.order_key, window.order_by)),
            frame,
            call.quantifier is sql.SetQuantifier.DISTINCT,
            call.null_treatment is sql.NullTreatment.IGNORE,
            function.options,
            type=kind,
            time=_time(function.name, operands, kind) if function.user is None else None,
            at=self.context.place(node),
        )

    def over_operands(self, node: sql.SqlCall) -> tuple[Scalar, ...]:
        """The arguments of an aggregate; none of ``COUNT(*)``."""
        if node.is_within_group:
            raise self.context.error(node, f"{node.name} takes no WITHIN GROUP")
        if not node.arguments and node.name == "COUNT":
            raise self.context.error(node, "COUNT needs an argument", "Write COUNT(*) to count rows.")
        if any(isinstance(argument, sql.Star) for argument in node.arguments):
            if node.name != "COUNT":
                raise self.context.error(node, f"{node.name} does not take *", "Only COUNT(*) does.")
            return ()
        return self.bind_all(node.arguments)

    def order_key(self, item: sql.OrderItem) -> OrderKey:
        """A sort key; by default NULL is the smallest value."""
        nulls_first = not item.descending if item.nulls_first is None else item.nulls_first
        return OrderKey(self.bind(item.expression), item.descending, nulls_first)

    def _window(self, window: Name | sql.OverWindow) -> sql.OverWindow:
        """A window, completed from the named window that it refers to."""
        if isinstance(window, Name):
            return self._named_window(window)
        if window.base is None:
            return window
        base = self._named_window(window.base)
        if window.partition_by or (window.order_by and base.order_by) or base.frame is not None:
            raise self.context.error(window, f"the window '{window.base}' says this already")
        return sql.OverWindow(
            None,
            base.partition_by,
            window.order_by or base.order_by,
            window.frame,
            window.allow_partial,
            start=window.start,
            end=window.end,
        )

    def _named_window(self, name: Name) -> sql.OverWindow:
        found = self.windows.get(name.text)
        if found is None:
            raise self.context.error(name, f"window '{name}' not found", misspelt(name.text, self.windows))
        return self._window(found)

    def _frame(self, window: sql.OverWindow, function: FunctionDefinition) -> Frame:
        """The frame; by default all rows up to the current one and its peers, or all without ORDER BY."""
        if window.frame is None:
            is_rows = function.kind is FunctionKind.OVER and function.name not in ("LAG", "LEAD")
            last = FrameBoundKind.CURRENT_ROW if window.order_by or is_rows else FrameBoundKind.UNBOUNDED_FOLLOWING
            return Frame(is_rows, FrameBound(FrameBoundKind.UNBOUNDED_PRECEDING), FrameBound(last))
        if function.kind is FunctionKind.OVER:
            raise self.context.error(window.frame, f"{function.name} takes no frame")
        low = self._bound(window.frame.low)
        high = FrameBound(FrameBoundKind.CURRENT_ROW) if window.frame.high is None else self._bound(window.frame.high)
        frame = Frame(window.frame.is_rows, low, high)
        self._check_frame(window, frame)
        return frame

    def _bound(self, bound: sql.WindowFrameBound) -> FrameBound:
        if bound.offset is None:
            return FrameBound(FrameBoundKind(bound.kind.value))
        offset = _number(self.bind(bound.offset))
        if not isinstance(offset, Literal):
            advice = "Write a number, such as ROWS 10 PRECEDING: the frame is the same for all rows."
            raise self.context.unplanned(bound.offset, "the offset of a frame is a constant", advice)
        return FrameBound(FrameBoundKind(bound.kind.value), offset)

    def _check_frame(self, window: sql.OverWindow, frame: Frame) -> None:
        """Refuse a frame that ends before it starts, or whose offsets do not fit the sort key."""
        node = window.frame
        assert node is not None
        kinds = list(FrameBoundKind)
        if kinds.index(frame.low.kind) > kinds.index(frame.high.kind) or frame.low.kind is kinds[-1]:
            reason = f"a frame cannot reach from {frame.low.kind.value} to {frame.high.kind.value}"
            raise self.context.error(node, reason)
        offsets = [bound.offset for bound in (frame.low, frame.high) if isinstance(bound.offset, Literal)]
        if frame.is_rows:
            if any(not is_in(offset.type, INTEGERS) or offset.value < 0 for offset in offsets):
                raise self.context.error(node, "ROWS counts rows", "Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW.")
            return
        if not window.order_by:
            raise self.context.error(node, "RANGE needs ORDER BY in the window")
        if offsets and len(window.order_by) > 1:
            raise self.context.error(node, "RANGE with an offset needs ORDER BY of one column")
        key = self.bind(window.order_by[0].expression).type
        if offsets and not is_in(key, NUMERICS | DATETIMES):
            raise self.context.error(node, f"RANGE with an offset needs ORDER BY of a number or a time, and not {key}")
        for offset in offsets:
            if is_in(key, DATETIMES) != isinstance(offset.type, IntervalType):
                raise self.context.error(node, f"RANGE over {key} has no offset of type {offset.type}")


def _refusal(function: FunctionDefinition, operands: Sequence[Scalar]) -> tuple[str, str | None]:
    """The reason for which a function does not take arguments, and the arguments that it takes."""
    shown = [str(operand.type) for operand in operands]
    if function.name in _INFIX and len(shown) == 2:
        reason = f"cannot apply '{function.name}' to {shown[0]} and {shown[1]}"
    else:
        reason = f"{function.name} does not take ({', '.join(shown)})"
    return reason, f"It takes {function.usage}." if function.usage else None


def _type_of(_: BindContext, operands: tuple[Scalar, ...], call: Scalar) -> Scalar:
    """``TYPEOF(value[, in_full])``."""
    in_full = len(operands) == 2 and isinstance(operands[1], Literal) and operands[1].value is True
    kind = to_external(operands[0].type)
    return Literal(kind.as_sql() if in_full else str(kind), type=call.type)


def _database(context: BindContext, _: tuple[Scalar, ...], call: Scalar) -> Scalar:
    return Literal(context.catalogs.database or "", type=call.type)


def _without_digits(_: BindContext, __: tuple[Scalar, ...], call: Scalar) -> Scalar:
    """``CURRENT_TIME(3)``: the digits are those of the type."""
    return replace(call, operands=()) if isinstance(call, Call) else call


_CONSTANTS: Final[dict[str, Callable[[BindContext, tuple[Scalar, ...], Scalar], Scalar]]] = {
    "TYPEOF": _type_of,
    "CURRENT_DATABASE": _database,
    **dict.fromkeys(("CURRENT_TIME", "LOCALTIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"), _without_digits),
}
"""Rewrites of calls of which all or a part is known at binding."""


def _time(name: str, operands: tuple[Scalar, ...], result: LogicalType) -> TimeAttribute | None:
    """The time attribute of a call's result: the argument's, for functions that return the argument."""
    if name == "PROCTIME":
        return TimeAttribute.PROCTIME
    if name in _TIMELESS:
        return None
    is_shifted = name == "+" and isinstance(operands[0].type, IntervalType)
    values = operands[1 if is_shifted else _VALUES_FROM.get(name, 0) :]
    times = {operand.time for operand in values if isinstance(operand.type, AtomicType)}
    if not values or values[0].time is None or result.as_nullable() != values[0].type.as_nullable():
        return None
    return values[0].time if times <= {values[0].time, None} else None


_VALUES_FROM: Final = {"IF": 1, "TIMESTAMPADD": 1}
"""The first of the arguments whose value the function returns."""


_ARITHMETIC: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _number(scalar: Scalar) -> Scalar:
    """The literal of a sum or product of whole numbers; other scalars as they are."""
    if not isinstance(scalar, Call) or scalar.function not in _ARITHMETIC or len(scalar.operands) != 2:
        return scalar
    values = [getattr(_number(each), "value", None) for each in scalar.operands]
    if not all(isinstance(value, int) for value in values):
        return scalar
    return Literal(_ARITHMETIC[scalar.function](*values), type=scalar.type)
