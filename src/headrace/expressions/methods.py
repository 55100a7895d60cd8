"""The methods of expressions: Python's operators, and a method for each other function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from headrace.expressions.tree import Expression


class ExpressionMethods:
    """The operators and methods of all expressions."""

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # numpy's scalars leave the operators to this class
    __hash__ = object.__hash__
    __iter__: ClassVar[None] = None

    @abstractmethod
    def _call(self, function: str, *more: object, **options: object) -> Expression:
        """A function of this expression, and of more values."""

    @abstractmethod
    def _reflected(self, function: str, first: object) -> Expression:
        """A function of another value and this expression, which stands on the right of an operator."""

    # --- operators ---------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return self._call("add", other)

    def __radd__(self, other: Any) -> Expression:
        return self._reflected("add", other)

    def __sub__(self, other: Any) -> Expression:
        return self._call("subtract", other)

    def __rsub__(self, other: Any) -> Expression:
        return self._reflected("subtract", other)

    def __mul__(self, other: Any) -> Expression:
        return self._call("multiply", other)

    def __rmul__(self, other: Any) -> Expression:
        return self._reflected("multiply", other)

    def __truediv__(self, other: Any) -> Expression:
        return self._call("divide", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return self._reflected("divide", other)

    def __floordiv__(self, other: Any) -> Expression:
        return self._call("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return self._reflected("floor_divide", other)

    def __mod__(self, other: Any) -> Expression:
        return self._call("modulo", other)

    def __rmod__(self, other: Any) -> Expression:
        return self._reflected("modulo", other)

    def __neg__(self) -> Expression:
        return self._call("negate")

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._call("equal", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._call("not_equal", other)

    def __lt__(self, other: Any) -> Expression:
        return self._call("less", other)

    def __le__(self, other: Any) -> Expression:
        return self._call("less_equal", other)

    def __gt__(self, other: Any) -> Expression:
        return self._call("greater", other)

    def __ge__(self, other: Any) -> Expression:
        return self._call("greater_equal", other)

    def __and__(self, other: Any) -> Expression:
        return self._call("and", other)

    def __rand__(self, other: Any) -> Expression:
        return self._reflected("and", other)

    def __or__(self, other: Any) -> Expression:
        return self._call("or", other)

    def __ror__(self, other: Any) -> Expression:
        return self._reflected("or", other)

    def __invert__(self) -> Expression:
        return self._call("not")

    def __bool__(self) -> bool:
        raise InvalidProgramError(
            f"{self!r} is an expression and has no truth value before it is computed: write & | ~ for and, or, not, "
            "with comparisons in parentheses; between(low, high) for low <= x <= high; is_in([...]) for in"
        )

    # --- nulls and sets ----------------------------------------------------------------------------------------------

    def is_null(self) -> Expression:
        """Return whether there is no value."""
        return self._call("is_null")

    def is_not_null(self) -> Expression:
        """Return whether there is a value."""
        return self._call("is_not_null")

    def is_nan(self) -> Expression:
        """Return whether a number is NaN; null for null."""
        return self._call("is_nan")

    def is_in(self, values: Iterable[Any]) -> Expression:
        """Return whether it equals one of some values."""
        if isinstance(values, str | bytes | ExpressionMethods):
            raise InvalidProgramError(f"is_in takes a list of values, not {values!r}")
        return self._call("is_in", *values)

    def between(self, low: Any, high: Any) -> Expression:
        """Return whether ``low <= x <= high``."""
        return self._call("between", low, high)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def abs(self) -> Expression:
        """Without its sign."""
        return self._call("abs")

    def round(self, digits: int = 0) -> Expression:
        """Rounded to so many digits after the point, as Python rounds: what is halfway goes to the even neighbour."""
        return self._call("round", digits=checked_number("round", digits))

    def floor(self) -> Expression:
        """The next whole number below."""
        return self._call("floor")

    def ceil(self) -> Expression:
        """The next whole number above."""
        return self._call("ceil")

    def sqrt(self) -> Expression:
        """The square root; NaN for what is below zero."""
        return self._call("sqrt")

    def power(self, exponent: Any) -> Expression:
        """Raised to a power, as a ``DOUBLE``."""
        return self._call("power", exponent)

    # --- text --------------------------------------------------------------------------------------------------------

    def upper(self) -> Expression:
        """In capital letters, each letter on its own (``ß`` gives ``ẞ``)."""
        return self._call("upper")

    def lower(self) -> Expression:
        """In small letters."""
        return self._call("lower")

    def length(self) -> Expression:
        """Return how many code points."""
        return self._call("length")

    def substring(self, start: int, length: int | None = None) -> Expression:
        """A part, by code points.

        Args:
            start: where it begins, counted from 0; a negative number counts from the end.
            length: how long it is at most; None for all the rest.
        """
        checked_number("substring", start)
        if length is not None and checked_number("substring", length) < 0:
            raise InvalidProgramError(f"substring: the length cannot be negative, it is {length}")
        return self._call("substring", start=start, length=length)

    def contains(self, part: str) -> Expression:
        """Return whether ``part`` occurs in it."""
        return self._call("contains", pattern=checked_text("contains", part, may_be_empty=True))

    def starts_with(self, part: str) -> Expression:
        """Return whether it begins with ``part``."""
        return self._call("starts_with", pattern=checked_text("starts_with", part, may_be_empty=True))

    def ends_with(self, part: str) -> Expression:
        """Return whether it ends with ``part``."""
        return self._call("ends_with", pattern=checked_text("ends_with", part, may_be_empty=True))

    def like(self, pattern: str) -> Expression:
        """Return whether it matches SQL's ``LIKE``: ``%`` stands for any text, ``_`` for one code point."""
        return self._call("like", pattern=checked_text("like", pattern, may_be_empty=True))

    def replace(self, old: str, new: str) -> Expression:
        """With every ``old`` made ``new``."""
        return self._call(
            "replace", pattern=checked_text("replace", old), replacement=checked_text("replace", new, may_be_empty=True)
        )

    def strip(self) -> Expression:
        """Without white space at both ends."""
        return self._call("strip")

    def concat(self, *more: Any) -> Expression:
        """With more text behind it; null when any of it is."""
        return self._call("concat", *more)

    # --- dates and times ---------------------------------------------------------------------------------------------

    def year(self) -> Expression:
        """The year."""
        return self._call("year")

    def quarter(self) -> Expression:
        """The quarter, 1 to 4."""
        return self._call("quarter")

    def month(self) -> Expression:
        """The month, 1 to 12."""
        return self._call("month")

    def day(self) -> Expression:
        """The day of the month, 1 to 31."""
        return self._call("day")

    def day_of_week(self) -> Expression:
        """The day of the week, Monday 1 to Sunday 7."""
        return self._call("day_of_week")

    def day_of_year(self) -> Expression:
        """The day of the year, 1 to 366."""
        return self._call("day_of_year")

    def hour(self) -> Expression:
        """The hour, 0 to 23."""
        return self._call("hour")

    def minute(self) -> Expression:
        """The minute, 0 to 59."""
        return self._call("minute")

    def second(self) -> Expression:
        """The whole second, 0 to 59."""
        return self._call("second")

    def epoch_millis(self) -> Expression:
        """Milliseconds since 1970, rounded down; a timestamp without zone is taken for one in UTC."""
        return self._call("epoch_millis")


def checked_text(method: str, value: object, *, may_be_empty: bool = False) -> str:
    """An argument that is text, the same for all records.

    Raises:
        InvalidProgramError: when it is not.
    """
    if not isinstance(value, str) or not (value or may_be_empty):
        raise InvalidProgramError(f"{method} takes a text that is the same for all records, not {value!r}")
    return value


def checked_number(method: str, value: object) -> int:
    """An argument that is a whole number, the same for all records.

    Raises:
        InvalidProgramError: when it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidProgramError(f"{method} takes a whole number that is the same for all records, not {value!r}")
    return value
