"""Whose results records are: what is told of one that does not fit the declared type, when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from headrace.operators.user_code import NO_RECORD, user_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import RecordOrigin
    from headrace.common.errors import InvalidTypeError
    from headrace.operators.base import OperatorContext

Maker = Callable[..., Any]
"""A function of the user that makes records."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordOrigins:
    """Which of several functions has made each record of a batch; looked up only when one does not fit.

    Attributes:
        rows: the records.
        maker_at: who has made the one at a place.
    """

    rows: Sequence[Any]
    maker_at: Callable[[int], Maker]

    def of(self, record: Any) -> Maker | None:
        """Who has made a record; where several have made the very same object, the first of them."""
        return next((self.maker_at(place) for place, row in enumerate(self.rows) if row is record), None)


@dataclass(frozen=True, slots=True)
class OperatorRecordOrigin:
    """Tells the error about a record of the operator, and of the function, that made it.

    Attributes:
        context: the operator.
        function: the function, where all records are results of one.
        side_output: the side output that they were emitted to, if it is one.
        makers: the functions, where there are several; one entry for each batch that was emitted.
    """

    context: OperatorContext
    function: Maker | None = None
    side_output: str | None = None
    makers: tuple[RecordOrigins, ...] = ()

    def __call__(self, error: InvalidTypeError) -> BaseException:
        """The error to raise."""
        record = getattr(error, "record", NO_RECORD)
        function = self.function or next((found for makers in self.makers if (found := makers.of(record))), None)
        return user_error(error, self.context, function=function, side_output=self.side_output)

    def joined(self, others: Sequence[RecordOrigin | None]) -> OperatorRecordOrigin | None:
        """That of records of several batches; None where not all are of the same output."""
        makers = [self.makers]
        for other in others:
            if not isinstance(other, OperatorRecordOrigin) or not self._is_of_same_output(other):
                return None
            makers.append(other.makers)
        known = tuple(dict.fromkeys(chain.from_iterable(makers)))  # slices of a batch have the same
        return self if known == self.makers else replace(self, makers=known)

    def _is_of_same_output(self, other: OperatorRecordOrigin) -> bool:
        same_output = self.context is other.context and self.side_output == other.side_output
        return same_output and self.function is other.function
