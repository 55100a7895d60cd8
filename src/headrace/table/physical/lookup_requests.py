"""The hint ``LOOKUP``, and how lookups make requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.common.config_options import boolean, choice, duration, integer
from headrace.common.configuration import Configuration
from headrace.table.connectors.table_lookup import TableLookup
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Hint
from headrace.table.options import ASYNC_CAPACITY, ASYNC_KEY_ORDERED, ASYNC_MODE, ASYNC_TIMEOUT
from headrace.table.physical.node import Terms

if TYPE_CHECKING:
    from headrace.operators.asynchronous.requests import RequestSettings

T = TypeVar("T")

_PAUSE: Final = 1000
"""The milliseconds between a request that has failed and the next attempt."""

_RETRY: Final = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")


@dataclass(frozen=True)
class LookupHint:
    """The options of a hint ``LOOKUP``, or those of the session.

    Attributes:
        is_async: whether many requests are made at a time; None if that is left to the table.
        mode: in which order rows may leave; they leave in theirs.
        is_key_ordered: whether rows of a key have to leave in order.
        capacity: how many requests are made at a time.
        timeout: how long one may take, in milliseconds.
        retry: the pause before a key that was not found is asked for again, and how often that is done.
        shuffles: whether rows are distributed by the key.
    """

    is_async: bool | None
    mode: str
    is_key_ordered: bool
    capacity: int
    timeout: int
    retry: tuple[int, int] | None
    shuffles: bool

    @staticmethod
    def of(hints: Sequence[Hint], settings: Configuration) -> LookupHint:
        """The first of several hints for a table.

        Raises:
            PlanningError: when a value is wrong, or only some options of retries are set.
        """
        options = dict(hints[0].options) if hints else {}
        given = [key for key in _RETRY if key in options]
        if given and len(given) < len(_RETRY):
            missing = next(key for key in _RETRY if key not in options)
            raise PlanningError(f"the hint LOOKUP needs '{missing}', too, if it has '{given[0]}'")
        _read(options, "retry-predicate", choice("lookup_miss"))
        _read(options, "retry-strategy", choice("fixed_delay"))
        pause, attempts = _read(options, "fixed-delay", duration), _read(options, "max-attempts", integer(1, 1 << 31))
        return LookupHint(
            _read(options, "async", boolean),
            _read(options, "output-mode", ASYNC_MODE.parse) or settings.get(ASYNC_MODE),
            settings.get(ASYNC_KEY_ORDERED),
            _read(options, "capacity", ASYNC_CAPACITY.parse) or settings.get(ASYNC_CAPACITY),
            _read(options, "timeout", ASYNC_TIMEOUT.parse) or settings.get(ASYNC_TIMEOUT),
            None if pause is None or attempts is None else (pause, attempts),
            bool(_read(options, "shuffle", boolean)),
        )

    def terms(self, lookup: TableLookup, *, has_changes: bool, materializes: bool) -> Terms:
        """The terms of plans.

        Args:
            lookup: how the table is looked up.
            has_changes: whether rows may be changes, which have to leave in order.
            materializes: whether what is found is kept, of which Flink's plans say that requests are not asynchronous.
        """
        if self._makes_many(lookup) and not materializes:
            mode = "ORDERED" if has_changes else self.mode.removeprefix("ALLOW_")
            ordered = str(self.is_key_ordered).lower()
            yield "async", f"{mode}, KEY_ORDERED: {ordered}, {self.timeout}ms, {self.capacity}"
        if self.shuffles:
            yield "shuffle", "true"
        if self.retry is not None:
            yield "retry", f"lookup_miss, FIXED_DELAY, {self.retry[0]}ms, {self.retry[1]}"

    def _makes_many(self, lookup: TableLookup) -> bool:
        from headrace.operators.lookup.table_readers import TableReader

        if isinstance(lookup.reader, TableReader):
            return False
        return lookup.is_async if self.is_async is None else self.is_async

    def requests(self, lookup: TableLookup) -> RequestSettings:
        """Return how keys are requested."""
        from headrace.operators.asynchronous.requests import RequestSettings
        from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY, AsyncRetryStrategy

        timeout, capacity = self.timeout, self.capacity if self._makes_many(lookup) else 1
        pause, attempts = self.retry or (_PAUSE, lookup.max_retries)
        if not attempts:
            return RequestSettings(timeout, capacity, False, NO_RETRY_STRATEGY)
        strategy = AsyncRetryStrategy.fixed_delay(
            attempts,
            max(1, pause),
            _is_missing if self.retry is not None else None,
            _is_failure if lookup.max_retries else None,
        )
        return RequestSettings(timeout, capacity, False, strategy)


def _is_missing(found: Any) -> bool:
    return not found


def _is_failure(_: Exception) -> bool:
    return True


def _read(options: dict[str, str], key: str, parse: Callable[[str], T]) -> T | None:
    if key not in options:
        return None
    try:
        return parse(options[key])
    except ValueError as error:
        raise PlanningError(f"the hint LOOKUP has '{key}' = '{options[key]}', which is not {error}") from None
