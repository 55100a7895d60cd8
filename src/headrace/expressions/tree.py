"""Expressions as the user writes them: small immutable trees that say what is to be computed, and of what.

They know nothing of types yet; :func:`headrace.expressions.binding.bind` gives them those.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import BasicTypeInfo, TypeInformation, Types
from headrace.expressions.methods import ExpressionMethods, checked_text

_ATOM: Final = 100
"""The precedence of names, calls and literals: nothing is put around them."""

_INFIX: Final[dict[str, tuple[str, int]]] = {
    "or": ("|", 1),
    "and": ("&", 3),
    "equal": ("==", 0),
    "not_equal": ("!=", 0),
    "less": ("<", 0),
    "less_equal": ("<=", 0),
    "greater": (">", 0),
    "greater_equal": (">=", 0),
    "add": ("+", 5),
    "subtract": ("-", 5),
    "multiply": ("*", 6),
    "divide": ("/", 6),
    "floor_divide": ("//", 6),
    "modulo": ("%", 6),
}
"""Functions that Python has operators for, and how tightly these bind."""

_PREFIX: Final[dict[str, tuple[str, int]]] = {"negate": ("-", 7), "not": ("~", 7)}

_FREE: Final = frozenset({"coalesce", "concat"})
"""Functions that are written ``f(a, b)``; all others are methods of their first argument."""


class Expression(ExpressionMethods):
    """A value that is computed of a record's fields: ``col("price") * col("quantity")``.

    Operators and methods build larger expressions; plain Python values among them stand for themselves. Nothing is
    computed before a job runs, and then a whole batch of records at a time. See ``docs/expressions.md``.

    Examples:
        >>> from headrace.expressions import col, when
        >>> col("price") * col("quantity") >= 50
        col("price") * col("quantity") >= 50
        >>> when(col("price").is_null()).then("unknown").otherwise("known").alias("state")
        when(col("price").is_null()).then("unknown").otherwise("known").alias("state")
    """

    __slots__ = ()

    # --- names and types ---------------------------------------------------------------------------------------------

    def alias(self, name: str) -> Expression:
        """Return the same under another name in the output of ``select``."""
        return Alias(self, checked_text("alias", name))

    def cast(self, type_info: Any) -> Expression:
        """Return the same value as one of another type; a value that does not fit is an error when it is met."""
        return CastTo(self, Types.of(type_info))

    def field(self, name: str | int) -> Expression:
        """A field of a value that is a row, a tuple or another record itself."""
        return FieldOf(self, _checked_field(name))

    # --- for this package --------------------------------------------------------------------------------------------

    def _call(self, function: str, *more: object, **options: object) -> Expression:
        return _call(function, self, *more, **options)

    def _reflected(self, function: str, first: object) -> Expression:
        return _call(function, first, self)

    @property
    def strength(self) -> int:
        """Return how tightly its text holds together: what binds more tightly puts parentheses around it."""
        return _ATOM

    @property
    def name(self) -> str | None:
        """Return what it is called in an output; None where only the user could say."""
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column(Expression):
    """A field of the record, by name or by position.

    Examples:
        >>> from headrace.expressions import col
        >>> col("price").round(2)
        col("price").round(2)
    """

    key: str | int

    def __repr__(self) -> str:
        return f"col({quoted(self.key)})"

    @property
    def name(self) -> str | None:
        return self.key if isinstance(self.key, str) else None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Side(Column):
    """The record of one side of a pair, in a join.

    Examples:
        >>> from headrace.expressions import left
        >>> left().name
        'left'
    """

    def __repr__(self) -> str:
        return f"{self.key}()"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LiteralValue(Expression):
    """A value that is the same for all records.

    Attributes:
        value: the value.
        type: its type; None finds it out.
        is_explicit: whether the user wrote ``lit(...)``.
    """

    value: Any
    type: TypeInformation | None = None
    is_explicit: bool = False

    def __repr__(self) -> str:
        text = quoted(self.value)
        if self.type is not None:
            return f"lit({text}, {_type_text(self.type)})"
        return f"lit({text})" if self.is_explicit else text

    @property
    def strength(self) -> int:
        return _PREFIX["negate"][1] if repr(self).startswith("-") else _ATOM


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FunctionCall(Expression):
    """A function of some expressions.

    Attributes:
        function: its name in the table of functions.
        arguments: what it is applied to.
        options: names and values of what is fixed for all records.
    """

    function: str
    arguments: tuple[Expression, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        if self.function in _INFIX:
            return self._infix(*_INFIX[self.function])
        if self.function in _PREFIX:
            symbol, strength = _PREFIX[self.function]
            return symbol + _inside(self.arguments[0], strength)
        values = [*map(repr, self.arguments), *(quoted(value) for _, value in self.options if value is not None)]
        if self.function in _FREE:
            return f"{self.function}({', '.join(values)})"
        first, *rest = values
        shown = f"[{', '.join(rest)}]" if self.function == "is_in" else ", ".join(rest)
        return f"{_inside(self.arguments[0], _ATOM, repr_=first)}.{self.function}({shown})"

    @property
    def strength(self) -> int:
        symbol = _INFIX.get(self.function) or _PREFIX.get(self.function)
        return _ATOM if symbol is None else symbol[1]

    def _infix(self, symbol: str, strength: int) -> str:
        left, right = self.arguments
        # Python chains comparisons, so one inside another needs parentheses on both sides.
        return f"{_inside(left, strength + (strength == 0))} {symbol} {_inside(right, strength + 1)}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CastTo(Expression):
    """A value as one of another type."""

    argument: Expression
    type: TypeInformation

    def __repr__(self) -> str:
        return f"{_inside(self.argument, _ATOM)}.cast({_type_text(self.type)})"

    @property
    def name(self) -> str | None:
        return self.argument.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FieldOf(Expression):
    """A field of a value that has some."""

    argument: Expression
    key: str | int

    def __repr__(self) -> str:
        if isinstance(self.argument, Side):
            return f"{self.argument.key}({quoted(self.key)})"
        return f"{_inside(self.argument, _ATOM)}.field({quoted(self.key)})"

    @property
    def name(self) -> str | None:
        return self.key if isinstance(self.key, str) else None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CaseWhen(Expression):
    """The value of the first branch whose condition is true.

    Attributes:
        branches: conditions and values.
        default: the value where no condition is true; None for null.
    """

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None

    def when(self, condition: Any) -> When:
        """One more branch."""
        return When(self.branches, as_expression(condition))

    def otherwise(self, value: Any) -> Expression:
        """The value where no condition is true; without it, null."""
        return CaseWhen(self.branches, None if value is None else as_expression(value))

    def __repr__(self) -> str:
        text = ".".join(f"when({condition!r}).then({value!r})" for condition, value in self.branches)
        return text if self.default is None else f"{text}.otherwise({self.default!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alias(Expression):
    """An expression under a name."""

    argument: Expression
    given: str

    def __repr__(self) -> str:
        return f"{_inside(self.argument, _ATOM)}.alias({quoted(self.given)})"

    @property
    def name(self) -> str:
        return self.given


class Unfinished(ABC):
    """A beginning that is no expression yet."""

    __slots__ = ()

    @property
    @abstractmethod
    def _wanted(self) -> str:
        """The part that it lacks, for messages."""


@dataclass(frozen=True, slots=True)
class When(Unfinished):
    """``when(condition)``, which waits for ``then(value)``.

    Attributes:
        branches: the branches before it.
        condition: when the value is taken.
    """

    branches: tuple[tuple[Expression, Expression], ...]
    condition: Expression

    def then(self, value: Any) -> CaseWhen:
        """The value where the condition is true."""
        return CaseWhen((*self.branches, (self.condition, as_expression(value))))

    @property
    def _wanted(self) -> str:
        return "when(...) wants .then(value)"


def col(key: str | int) -> Column:
    """A field of the record.

    Args:
        key: its name, or its position (negative ones count from the end). The fields of tuples are called ``f0``,
            ``f1`` and so on; a record that is a plain value is its own only field, ``value``.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.expressions import col
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> payment = Types.ROW_NAMED(["card", "amount"], [str, float])
        >>> payments = env.from_collection([("ann", 12.5), ("bob", 80.0)], payment)
        >>> payments.filter(col("amount") > 50).execute_and_collect(limit=10)
        [Row(card='bob', amount=80.0)]
    """
    return Column(_checked_field(key))


def left(key: str | int | None = None) -> Expression:
    """In a join: a field of the left record, by name or by position; the record itself without one.

    Args:
        key: the name of the field, or its position.

    Examples:
        >>> from headrace.expressions import left, right
        >>> right("amount") - left("amount")
        right("amount") - left("amount")
    """
    record = Side("left")
    return record if key is None else record.field(key)


def right(key: str | int | None = None) -> Expression:
    """In a join: a field of the right record, by name or by position; the record itself without one.

    Args:
        key: the name of the field, or its position.

    Examples:
        >>> from headrace.expressions import right
        >>> right("amount").alias("paid")
        right("amount").alias("paid")
    """
    record = Side("right")
    return record if key is None else record.field(key)


def lit(value: object, type_info: object = None) -> LiteralValue:
    """A value that is the same for all records.

    Args:
        value: the value; None needs a type.
        type_info: its type; found out when left out.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.expressions import col, lit
        >>> lit(1) / col("n")
        lit(1) / col("n")
        >>> lit(None, Types.LONG())
        lit(None, Types.LONG())
    """
    return LiteralValue(value, None if type_info is None else Types.of(type_info), is_explicit=True)


def when(condition: object) -> When:
    """The beginning of ``when(condition).then(value).otherwise(other)``, SQL's ``CASE``.

    A value is computed only of the records that take it, so ``when(col("n") != 0).then(col("sum") // col("n"))`` never
    divides by zero. A condition that is null is not true.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.expressions import col, when
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([-3, 0, 7])
        >>> sign = when(col("value") < 0).then("-").when(col("value") > 0).then("+").otherwise("0")
        >>> numbers.map(sign).execute_and_collect(limit=10)
        ['-', '0', '+']
    """
    return When((), as_expression(condition))


def coalesce(*values: object) -> Expression:
    """The first of some values that is not null.

    Raises:
        InvalidProgramError: when all are plain values, so that it depends on no record.

    Examples:
        >>> from headrace.expressions import coalesce, col
        >>> coalesce(col("nickname"), col("name"), "unknown")
        coalesce(col("nickname"), col("name"), "unknown")
    """
    _check_any_column("coalesce", values)
    return _call("coalesce", *values)


def concat(*values: object) -> Expression:
    """Texts one after the other; null when one of them is.

    Raises:
        InvalidProgramError: when all are plain text, so that it depends on no record.

    Examples:
        >>> from headrace.expressions import col, concat
        >>> concat(col("first"), " ", col("last")).alias("name")
        concat(col("first"), " ", col("last")).alias("name")
    """
    _check_any_column("concat", values)
    return _call("concat", *values)


def _check_any_column(function: str, values: tuple[object, ...]) -> None:
    """Refuse what looks like names of fields, which would stand for themselves."""
    if values and not any(isinstance(value, Expression | Unfinished) for value in values):
        given = ", ".join(map(quoted, values))
        columns = ", ".join(f"col({quoted(value)})" for value in values)
        raise InvalidProgramError(
            f"{function}({given}) is the same for all records, as text stands for itself: write {function}({columns}) "
            f"for fields, or lit(...) around what is meant as it is"
        )


def as_expression(value: object) -> Expression:
    """An expression as it is; any other value as a literal.

    Raises:
        InvalidProgramError: for None, which has no type.
    """
    if isinstance(value, Expression):
        return value
    if isinstance(value, Unfinished):
        raise InvalidProgramError(value._wanted)
    if value is None:
        raise InvalidProgramError(
            "None in an expression: write is_null() or is_not_null() to ask for it, lit(None, Types.LONG()) to make it"
        )
    return LiteralValue(value)


def _call(function: str, *arguments: object, **options: object) -> Expression:
    return FunctionCall(function, tuple(map(as_expression, arguments)), tuple(options.items()))


def _inside(part: Expression, strength: int, repr_: str | None = None) -> str:
    text = repr(part) if repr_ is None else repr_
    return text if part.strength >= strength else f"({text})"


def quoted(value: object) -> str:
    """A value as programs write it, text in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _checked_field(key: object) -> str | int:
    if not isinstance(key, str | int) or isinstance(key, bool):
        raise InvalidProgramError(f"a column is given by name or position, not by {key!r}")
    return key


def _type_text(type_info: TypeInformation) -> str:
    return f"Types.{type_info.basic_type.name}()" if isinstance(type_info, BasicTypeInfo) else str(type_info)
