"""Functions, expressions and fields that a program hands to a stream, checked at once to name its line in errors."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from headrace.common.arguments import check_parameters, method_of_object
from headrace.common.call_site import of_function
from headrace.common.errors import (
    HeadraceError,
    InvalidProgramError,
    InvalidTypeError,
    UnsupportedOperationError,
    expect,
    refused,
    shown,
    uncalled,
    with_article,
)
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import BasicType, BasicTypeInfo, TupleTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.connectors.source import Boundedness
from headrace.datastream.functions import (
    AllWindowFunction,
    FilterFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from headrace.datastream.streams.types import declared_type, is_untyped
from headrace.expressions import Bound, Column, Expression, bind, col
from headrace.graph.row_specs import ExpectationSpec
from headrace.graph.specs import SourceSpec, TimestampsSpec
from headrace.graph.stream_graph import Node, StreamGraph
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.operators.expectations import BY_NAME, OnViolation
from headrace.operators.functions import has_own, method_of
from headrace.operators.join.results import pair_type
from headrace.time.watermark_strategy import ExpressionTimestamps, FieldTimestamps, NoWatermarks, WatermarkStrategy

_SHOWN: Final = 100
"""The number of characters of an expression that the name of an operator shows."""


def bound(expression: Expression, record_type: TypeInformation, method: str) -> Bound:
    """An expression over the records of a stream.

    Args:
        expression: the expression.
        record_type: the type of the records.
        method: the method that it was given to, for messages.

    Raises:
        InvalidTypeError: when it does not fit the records.
    """
    try:
        return bind(expression, record_type)
    except InvalidTypeError as error:
        raise refused(f"{method}: {error}", InvalidTypeError) from None


def type_of_field(record_type: TypeInformation, field: str | int, requested_by: str) -> TypeInformation:
    """The type of a field of records that have some.

    Args:
        record_type: the type of the records.
        field: its name or position.
        requested_by: what requires it, for messages.

    Raises:
        InvalidTypeError: when there is no such field.
    """
    try:
        return record_type.field_types[record_type.field_index(field)]
    except InvalidTypeError as error:
        raise refused(f"{requested_by}: {error}", InvalidTypeError) from None


def bound_condition(expression: Expression, record_type: TypeInformation, method: str) -> Bound:
    """A condition over the records of a stream, as :func:`bound`.

    Raises:
        InvalidTypeError: also when it is of another type.
    """
    condition = bound(expression, record_type, method)
    if condition.type != Types.BOOLEAN():
        text = (
            f"{method} takes a condition, but {condition.text} is of type {condition.type}: compare it with something"
        )
        raise refused(text, InvalidTypeError)
    return condition


def check_same_type(method: str, value: Bound, declared: object) -> None:
    """Refuse a declared type that is not the one that an expression has.

    Raises:
        InvalidTypeError: when they differ.
    """
    if declared is not None and declared_type(declared) != value.type:
        text = f"{method}: {value.text} is of type {value.type}, not {declared_type(declared)}: write .cast(...)"
        raise refused(text, InvalidTypeError)


def bound_columns(
    expressions: Sequence[Expression], record_type: TypeInformation
) -> tuple[tuple[Bound, ...], list[str]]:
    """The columns of ``select`` and their names.

    Raises:
        InvalidTypeError: when one does not fit the records.
        InvalidProgramError: when one has no name, or two have the same.
    """
    values = tuple(bound(expression, record_type, "select") for expression in expressions)
    names = [_name(expression, record_type) for expression in expressions]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if not names or repeated:
        text = f"two columns are called {repeated[0]!r}: name one with .alias(...)" if repeated else "say which columns"
        raise refused(f"select: {text}")
    return values, names


def selected(
    expressions: Sequence[Any], left: TypeInformation, right: TypeInformation
) -> tuple[tuple[Bound, ...], TypeInformation]:
    """The columns of ``select`` over pairs of records, and the type of the rows that they make.

    Raises:
        InvalidTypeError: when one is no expression, or does not fit the pairs.
        InvalidProgramError: when one has no name, or two have the same.
    """
    pair = pair_type(left, right)
    for expression in expressions:
        if not isinstance(expression, Expression) or _is_no_side(expression, pair):
            field = expression.key if isinstance(expression, Column) else expression
            named = repr(field) if isinstance(field, str | int) else "'id'"
            text = f"select takes expressions over pairs, left({named}) or right({named}) say, not {shown(expression)}"
            raise refused(text, InvalidTypeError)
    values, names = bound_columns(expressions, pair)
    return values, Types.ROW_NAMED(names, [value.type for value in values])


def _is_no_side(expression: Expression, pair: TypeInformation) -> bool:
    """Returns True for a plain column that is neither of the two records of a pair."""
    return isinstance(expression, Column) and expression.key not in (*pair.field_names, *range(len(pair.field_names)))


def projected(positions: tuple[Any, ...], record_type: TypeInformation) -> tuple[Bound, ...]:
    """The fields of tuples at some positions.

    Raises:
        InvalidTypeError: when the records are no tuples, or there is no such field.
    """
    if not isinstance(record_type, TupleTypeInfo):
        text = f"project is for tuples, but the records are of type {record_type}: use select(...), or give their type"
        raise refused(text, InvalidTypeError)
    if not positions:
        raise refused("project: say which fields, by their positions: project(0, 2)", InvalidTypeError)
    for position in positions:
        if not isinstance(position, int) or isinstance(position, bool):
            text = f"project takes positions of fields one by one, project(0, 2) say, not {position!r}"
            raise refused(text, InvalidTypeError)
    return tuple(bound(col(position), record_type, "project") for position in positions)


def titled(kind: str, *columns: object) -> str:
    """The name of an operator: its kind and what it computes, shortened."""
    text = ", ".join(map(repr, columns))
    return f"{kind}: {text}" if len(text) <= _SHOWN else f"{kind}: {text[:_SHOWN]}..."


def as_column(column: object) -> Expression:
    """An expression, or the field with this name or position.

    Raises:
        InvalidTypeError: when it is neither.
    """
    if isinstance(column, Expression):
        return column
    if isinstance(column, str | int) and not isinstance(column, bool):
        return col(column)
    raise refused(f"select takes expressions and names of fields, not {column!r}", InvalidTypeError)


def name_of(expression: Expression, record_type: TypeInformation) -> str | None:
    """The name of an expression over the records of a type; None where only the user could say."""
    if isinstance(expression, Column) and record_type.is_composite:
        return record_type.field_names[record_type.field_index(expression.key)]
    return expression.name


def _name(expression: Expression, record_type: TypeInformation) -> str:
    name = name_of(expression, record_type)
    if name is None:
        raise refused(f"select: say what {expression!r} is called: {expression.alias('...')!r}")
    return name


_NUMBERS: Final = WHOLE_NUMBERS | FLOATS | {BasicType.BIG_INT, BasicType.BIG_DEC}


def checked_field(record_type: TypeInformation, aggregation: str, position: object) -> str | int | None:
    """The field that is meant; None for the record itself.

    Args:
        record_type: the type of the records.
        aggregation: ``sum``, ``min``, ``max``, ``min_by`` or ``max_by``.
        position: what the user gave: a name, a position or a plain column.

    Raises:
        InvalidTypeError: when it is neither, there is no such field, or its values do not fit.
    """
    if isinstance(position, Column):
        position = position.key
    if not isinstance(position, int | str) or isinstance(position, bool):
        instead = ": make it a field with select(...) first" if isinstance(position, Expression) else ""
        text = f"{aggregation} takes the name or the position of a field, not {position!r}{instead}"
        raise refused(text, InvalidTypeError)
    if is_untyped(record_type):
        return position  # what the records are is known when they come
    if not record_type.is_composite:
        if position != 0:
            text = f"{aggregation}({position!r}): records of type {record_type} have no fields"
            raise refused(f"{text}: {aggregation}() takes the record itself", InvalidTypeError)
        _check_values(record_type, f"{aggregation}()", aggregation)
        return None
    call = f"{aggregation}({position!r})"
    _check_values(type_of_field(record_type, position, call), call, aggregation)
    return position


def _check_values(type_info: TypeInformation, call: str, aggregation: str) -> None:
    """``sum`` takes numbers; the others take whatever has an order."""
    if is_untyped(type_info):
        return
    is_sum = aggregation == "sum"
    if isinstance(type_info, BasicTypeInfo) and (not is_sum or type_info.basic_type in _NUMBERS):
        return
    wanted = "numbers" if is_sum else "numbers, text, booleans, dates and times"
    raise refused(f"{call} takes {wanted}, but the values are of type {type_info}", InvalidTypeError)


_AWAITED_ELSEWHERE: Final = frozenset({"map", "flat_map"})
"""Methods of functions that AsyncDataStream has a likeness of."""

_OF_KEYS: Final = "key_by(...).window(...)"
_OF_ALL: Final = "window_all(...)"
_WINDOWS: Final[dict[type[Function], str]] = {
    WindowFunction: _OF_KEYS,
    ProcessWindowFunction: _OF_KEYS,
    AllWindowFunction: _OF_ALL,
    ProcessAllWindowFunction: _OF_ALL,
}
"""The windows that functions are for. Their methods have the same names, and other parameters."""


def check_function(
    function: object, base: type[Function], method: str, *, otherwise: str = "", is_opened: bool = True
) -> None:
    """Refuse what cannot be called for a record, or not with what it is called with.

    Args:
        function: what the user gave.
        base: the class that it should be of, unless it is callable.
        method: the method that is called for a record.
        otherwise: what else the caller takes, as it follows in the message.
        is_opened: whether its ``open`` and ``close`` are called.

    Raises:
        InvalidTypeError: when it is neither, or takes other parameters.
    """
    check_instance(function, base)
    if method_of_object(function, method) is None and not callable(function):
        raise refused(
            f"expected {with_article(base)} or a function{otherwise}, got {shown(function)}", InvalidTypeError
        )
    check_parameters(function, base, method, is_opened=is_opened)
    _refuse_coroutine(method_of_object(function, method) or function, method)


def check_object(function: object, base: type[Function], method: str, *, instead: str = "") -> None:
    """Refuse what does not have the method, or with other parameters: plain callables do not do here.

    Args:
        function: what the user gave.
        base: the class that it should be of.
        method: the method that is called.
        instead: what to write for what was given; begins in lower case.

    Raises:
        InvalidTypeError: when the method is missing, or takes other parameters.
    """
    check_instance(function, base)
    if method_of_object(function, method) is None:
        hint = instead or f"write a class derived from it, with {method}"
        raise refused(f"expected {with_article(base)}, got {shown(function)}: {hint}", InvalidTypeError)
    check_parameters(function, base, method)
    _refuse_coroutine(method_of_object(function, method), method)


def check_methods(function: object, base: type[Function], *methods: str) -> None:
    """Refuse what lacks one of the methods of a function with several, or has them with other parameters.

    Args:
        function: what the user gave.
        base: the class that it should be of.
        methods: the methods that are called for records.

    Raises:
        InvalidTypeError: when one is missing, or takes other parameters.
    """
    instead = f"write a class derived from it, with {' and '.join(methods)}"
    for method in methods:
        check_object(function, base, method, instead=instead)


def check_is_not_opened(function: object, base: type[Function], role: str, instead: str) -> None:
    """Refuse a function with an ``open`` that would not be called.

    Args:
        function: what the user gave.
        base: the class that says that its ``open`` is meant.
        role: what it is given as.
        instead: what to do for it.

    Raises:
        UnsupportedOperationError: when it has one.
    """
    if isinstance(function, base) and has_own(function, "open"):
        raise refused(
            f"{type(function).__name__}.open() would never be called: a {role} runs wherever records are sent, outside "
            f"of any operator; {instead}",
            UnsupportedOperationError,
        )


def check_has_no_state(function: object, role: str, instead: str) -> None:
    """Refuse a function that keeps state of its subtask where that would not be stored.

    Args:
        function: what the user gave.
        role: what it is given as.
        instead: where state can be kept.

    Raises:
        InvalidProgramError: when it is a ``CheckpointedFunction``, or looks like one.
    """
    if isinstance(function, CheckpointedFunction) or hasattr(type(function), "initialize_state"):
        raise refused(
            f"{type(function).__name__}.initialize_state() would never be called: a {role} belongs to no operator, and "
            f"has no state; {instead}"
        )


def _refuse_coroutine(called: object, method: str) -> None:
    """Refuse an ``async def``: what it returns when it is called is no result yet, and would not be awaited."""
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        instead = "write def instead of async def"
        if method in _AWAITED_ELSEWHERE:
            instead += ", or use AsyncDataStream"
        text = f"{method} is called and not awaited: {instead} ({of_function(called)})"
        raise refused(text, InvalidTypeError)


def check_condition(called: object, method: str) -> None:
    """Refuse a function that gives no answer: a generator or a coroutine counts as true, so all records would fit.

    Args:
        called: what is called for a record.
        method: the method that it was given to.

    Raises:
        InvalidTypeError: when it yields, or has to be awaited.
    """
    _refuse_coroutine(called, method)
    if inspect.isgeneratorfunction(called):
        text = f"{method} asks for true or false, and a function that yields is true of every record: return the answer"
        raise refused(f"{text} ({of_function(called)})", InvalidTypeError)


def check_instance(function: object, base: type[Function]) -> None:
    """Refuse a class where an instance is meant, and a function for other windows.

    Raises:
        InvalidTypeError: when ``function`` is a class derived from ``base``, or made for windows of keys where those
            of all records are, or the other way round.
    """
    if isinstance(function, type) and issubclass(function, base):
        text = f"expected {with_article(base)}, got the class itself: write {function.__name__}()"
        raise refused(text, InvalidTypeError)
    if base in _WINDOWS and not isinstance(function, base):
        made_for = next((kind for kind in _WINDOWS if isinstance(function, kind)), base)
        if _WINDOWS[made_for] != _WINDOWS[base]:
            text = f"expected {with_article(base)}, got {with_article(made_for)}: that is for {_WINDOWS[made_for]}"
            raise refused(text, InvalidTypeError)


def check_same_environment(first: object, second: object, method: str) -> None:
    """Refuse streams of two environments, which cannot be in one job.

    Raises:
        InvalidProgramError: when they are two.
    """
    if first is not second:
        raise refused(f"{method} takes a stream of the same environment")


_TIMES: Final = frozenset(
    {BasicType.LONG, BasicType.INT, BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ, BasicType.INSTANT}
)


def is_needed(strategy: WatermarkStrategy) -> bool:
    """Returns False for a strategy without effect: without watermarks a silent split holds nothing back."""
    return strategy.timestamp_assigner is not None or not isinstance(strategy.generator, NoWatermarks)


def check_strategy(strategy: object, record_type: TypeInformation) -> None:
    """Refuse what is no strategy, and a strategy that takes time from a field or an expression that gives none.

    Raises:
        InvalidTypeError: when it is no ``WatermarkStrategy``, there is no such field, or it holds no time.
        InvalidProgramError: when its timestamp assigner keeps state.
    """
    if not isinstance(strategy, WatermarkStrategy):
        hint = uncalled(strategy, WatermarkStrategy) or ": WatermarkStrategy.no_watermarks(), say"
        raise refused(f"expected a WatermarkStrategy, got {strategy!r}{hint}", InvalidTypeError)
    assigner = strategy.timestamp_assigner
    if isinstance(assigner, FieldTimestamps):
        _check_field(assigner.field, record_type)
    elif isinstance(assigner, ExpressionTimestamps):
        value = bound(assigner.expression, record_type, "event time")
        _check_time(value.type, f"event time from {value.text}")
    else:
        instead = "put the time into the record, with a map() that keeps the state, and assign timestamps behind it"
        check_has_no_state(assigner, "timestamp assigner", instead)


def check_has_event_time(graph: StreamGraph, operators: set[int], which: str, method: str) -> None:
    """Refuse a stream whose records do not all pass a watermark strategy: its event time would never come.

    Args:
        graph: the graph that it is in.
        operators: the ids of the operators whose records it is of.
        which: what messages call it.
        method: what wants event time.

    Raises:
        InvalidProgramError: when there is a way to it without any strategy; it names the source.
    """
    for source in _sources_without_event_time(graph, operators):
        raise _without_event_time(source, which, method)


def check_event_time_comes(graph: StreamGraph, operators: set[int], which: str, method: str) -> None:
    """Refuse the same as :func:`check_has_event_time`, unless the source ends: event time comes with its end."""
    for source in _sources_without_event_time(graph, operators):
        if not (isinstance(source.spec, SourceSpec) and source.spec.source.boundedness is Boundedness.BOUNDED):
            raise _without_event_time(source, which, method)


def _without_event_time(source: Node, which: str, method: str) -> HeadraceError:
    return refused(
        f"{method} wants event time, and the records of {source.name!r} in the {which} stream have none: give a "
        "WatermarkStrategy with a timestamp assigner to from_source(...), or to "
        "assign_timestamps_and_watermarks(...) before key_by"
    )


def _sources_without_event_time(graph: StreamGraph, operators: set[int]) -> Iterator[Node]:
    """The sources from which there is a way without any watermark strategy."""
    waiting, seen = set(operators), set[int]()
    while waiting:
        node = graph[waiting.pop()]
        if node.id in seen or isinstance(node.spec, TimestampsSpec):
            continue
        seen.add(node.id)
        if not node.inputs:
            yield node
        waiting |= {edge.source for edge in node.inputs}


def _check_field(field: str | int, record_type: TypeInformation) -> None:
    if not record_type.is_composite and is_untyped(record_type):
        raise refused(
            f"event time from field {field!r}: the records are pickled objects and have no fields; give their type "
            "where they are made, or take the time with a function",
            InvalidTypeError,
        )
    requested_by = f"event time from field {field!r}"
    _check_time(
        type_of_field(record_type, field, requested_by) if record_type.is_composite else record_type, requested_by
    )


def _check_time(found: TypeInformation, what: str) -> None:
    if not isinstance(found, BasicTypeInfo) or found.basic_type not in _TIMES:
        text = f"{what}: expected milliseconds (LONG) or a timestamp, but it is of type {found}"
        raise refused(text, InvalidTypeError)


Violations = Literal["count", "drop", "fail", "hold"] | OutputTag
"""The ways to handle records that violate an expectation."""


def expectation_spec(
    record_type: TypeInformation, name: str, condition: Callable[..., Any] | object, violations: Violations
) -> ExpectationSpec:
    """The spec of an expectation of the records of a stream.

    Raises:
        InvalidTypeError: when an argument is of the wrong kind, or there is no such field.
        InvalidProgramError: when the name is empty, or there is no such way to treat violations.
    """
    expect(name, str, "expect")
    if not name.strip():
        raise refused("an expectation needs a name, which metrics and errors show")
    on_violation, tag = _treatment(violations)
    if isinstance(condition, Expression):
        return ExpectationSpec(name, bound_condition(condition, record_type, "expect"), on_violation, tag)
    check_function(condition, FilterFunction, "expect", otherwise=', or a condition such as col("amount") > 0')
    check_condition(method_of(condition, "filter"), "expect")
    return ExpectationSpec(name, condition, on_violation, tag)


def _treatment(violations: object) -> tuple[OnViolation, OutputTag | None]:
    if isinstance(violations, OutputTag):
        return OnViolation.DEAD_LETTER, violations
    if not isinstance(violations, str) or violations not in BY_NAME:
        known = ", ".join(map(repr, BY_NAME))
        error = InvalidProgramError if isinstance(violations, str) else InvalidTypeError
        raise refused(f"expect: violations is one of {known}, or an OutputTag, not {shown(violations)}", error)
    return BY_NAME[violations], None
