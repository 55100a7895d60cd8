"""The patterns that an operator looks for: one that is fixed, or rules that change as time goes on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Protocol

import numpy as np

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row
from headrace.operators.base import OperatorContext, UserCode
from headrace.operators.pattern import stored_matches
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.pattern_matcher import STORES, PatternMatcher, store_names
from headrace.operators.pattern.rules import RejectedRule, RuleChange, RuleReader, RuleVersion
from headrace.operators.pattern.stored_matches import StoredMatches
from headrace.operators.user_code import is_interruption
from headrace.operators.waiting import STORE as WAITING_STORE
from headrace.operators.waiting import WaitingInBroadcastState
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.evolution import NOTHING_RENAMED
from headrace.state.protocols import StateKind, store_name

logger = get_logger(__name__)

RULES: Final = 1
"""The input of rules; events are the other one."""

_RULES: Final = "pattern-rules"
_RULE: Final = Types.ROW_NAMED(
    ["number", "version", "pattern", "pickled"],
    [Types.LONG(), Types.LONG(), Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())],
)
_STORES_OF_RULES: Final = tuple(store_name(StateKind.BROADCAST, name) for name in (_RULES, WAITING_STORE))

StoredRule = Row
"""The number of its stores, its version, and its pattern: as JSON, or pickled."""

_LONGEST_WINDOW: Final = 1 << 61
"""Timestamps are so far from both ends of time, in milliseconds, that any window fits."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of event time in which the same patterns are looked for.

    Attributes:
        matchers: the patterns.
        watermarks: the times to which event time comes in it, ascending: watermarks, and the end of the stretch.
        stamps: the watermark that is in force before each of these.
    """

    matchers: Sequence[PatternMatcher]
    watermarks: list[int]
    stamps: list[int]


class PatternUser(Protocol):
    """The operator, as the patterns use it."""

    def open_pattern(self, matcher: PatternMatcher) -> None:
        """Opens what the conditions of a rule call."""

    def close_pattern(self, matcher: PatternMatcher) -> None:
        """Closes it."""

    def reject(self, rule: RejectedRule, stamp: int) -> None:
        """Tells of a record of the stream of rules that changes nothing, at a watermark."""


class PatternsAtWork(Protocol):
    """The patterns that an operator looks for."""

    @property
    def matchers(self) -> Sequence[PatternMatcher]:
        """The patterns that are searched for now."""

    @property
    def reach(self) -> int:
        """The longest time from the timestamp of an event to the time-out of its partial matches, in milliseconds."""

    @property
    def user_code(self) -> Sequence[UserCode]:
        """The callers of user functions in expressions, which the operator opens and closes."""

    def bind(self, clock: Callable[[], int], user: PatternUser, *, tells: bool) -> None:
        """Set the operator that looks for the patterns; called first.

        Args:
            clock: the clock of conditions.
            user: the operator that looks for them.
            tells: whether timeouts are reported.
        """

    def is_store(self, name: str) -> bool:
        """Return whether a store may be one of these patterns."""

    def restore_state(self, context: OperatorContext, domain: str) -> None:
        """Takes up the state.

        Args:
            context: the operator.
            domain: the time domain of timers, as state names it.
        """

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""

    def end_epoch(self) -> None:
        """Puts what has changed into state."""

    def close(self) -> None:
        """Closes what was opened for patterns that came with the rules."""

    def stretches(self, reached: int, watermarks: list[int]) -> Iterator[Stretch]:
        """The stretches of work as event time advances, one after the other.

        Args:
            reached: the watermark up to which all has been done.
            watermarks: those that have come since, ascending.
        """


class FixedPattern:
    """One pattern, as long as the job runs.

    Args:
        automaton: the compiled pattern.
        type_: the type of the events.
    """

    def __init__(self, automaton: Automaton, type_: TypeInformation) -> None:
        self._automaton, self._type = automaton, type_
        self.reach = automaton.window

    def bind(self, clock: Callable[[], int], user: PatternUser, *, tells: bool) -> None:
        matcher = PatternMatcher(self._automaton, self._type, clock, tells=tells)
        self.matchers: Sequence[PatternMatcher] = (matcher,)
        self.user_code: Sequence[UserCode] = matcher.user_code

    def is_store(self, name: str) -> bool:
        return name in STORES

    def restore_state(self, context: OperatorContext, domain: str) -> None:
        for matcher in self.matchers:
            matcher.restore_state(context, domain)

    def begin_epoch(self) -> None:
        for matcher in self.matchers:
            matcher.begin_epoch()

    def end_epoch(self) -> None:
        for matcher in self.matchers:
            matcher.end_epoch()

    def close(self) -> None:
        pass

    def stretches(self, reached: int, watermarks: list[int]) -> Iterator[Stretch]:
        yield Stretch(self.matchers, watermarks, [reached, *watermarks])


class ChangingPatterns:
    """The patterns of rules that are added, changed and withdrawn.

    In event time a rule holds from the time of its record on, or from behind the watermark that this has met. In
    processing time it holds from the epoch on in which it is read, for all events of that one. What is known of the
    rules all subtasks have alike; the state of each version is in stores of its own, which go with it.

    Args:
        reader: reads rules.
        rule_type: the type of their records.
        type_: the type of the events.
    """

    reach: Final = _LONGEST_WINDOW

    def __init__(self, reader: RuleReader, rule_type: TypeInformation, type_: TypeInformation) -> None:
        self._reader, self._rule_type, self._type = reader, rule_type, type_
        self._by_id: dict[str, PatternMatcher] = {}
        self._is_loaded = False

    def bind(self, clock: Callable[[], int], user: PatternUser, *, tells: bool) -> None:
        self._clock, self._user, self._tells = clock, user, tells

    @property
    def matchers(self) -> Sequence[PatternMatcher]:
        """The patterns that are looked for now, by the ids of their rules."""
        return [self._by_id[id_] for id_ in sorted(self._by_id)]

    @property
    def user_code(self) -> Sequence[UserCode]:
        """Empty: no pattern is known before there are rules."""
        return ()

    def is_store(self, name: str) -> bool:
        """Return whether a store may be one of these patterns."""
        return name in _STORES_OF_RULES or any(name.startswith(f"{store}-") for store in STORES)

    def restore_state(self, context: OperatorContext, domain: str) -> None:
        self._context, self._domain = context, domain
        states = context.state.operator_state_store
        self._waiting = WaitingInBroadcastState(states, self._rule_type, NOTHING_RENAMED)
        descriptor = MapStateDescriptor(_RULES, Types.STRING(), _RULE)
        descriptor.keep_for_operator("the rules of a pattern operator", NOTHING_RENAMED)
        self._stored = states.broadcast_state(descriptor)
        for name in context.state.stored():
            if name.startswith(f"{stored_matches.STORE}-"):
                number = int(name.removeprefix(f"{stored_matches.STORE}-"))
                matches, summaries, _ = store_names(number)
                StoredMatches(context, matches, summaries, None, self._type, summarizes=False)
        self._by_id, self._is_loaded = {}, False

    def begin_epoch(self) -> None:
        self._waiting.begin_epoch()
        if not self._is_loaded:
            self._load()
        for matcher in self._by_id.values():
            matcher.begin_epoch()

    def end_epoch(self) -> None:
        self._waiting.end_epoch()
        for matcher in self._by_id.values():
            matcher.end_epoch()

    def close(self) -> None:
        """Closes what conditions have opened."""
        for matcher in self._by_id.values():
            self._user.close_pattern(matcher)

    def add(self, batch: Batch, reached: int) -> None:
        """Takes records of the stream of rules, which take effect when event time has come to them.

        Args:
            batch: the records.
            reached: the watermark up to which all has been done.
        """
        behind = np.minimum(np.maximum(batch.watermarks, reached), MAX_WATERMARK - 1) + 1
        self._waiting.add(batch.with_timestamps(np.maximum(batch.timestamps, behind)))

    def take(self, batch: Batch, now: int) -> None:
        """Takes records of the stream of rules, which take effect at once.

        Args:
            batch: the records.
            now: the time of the clock.
        """
        for record, stamp in zip(batch.rows, batch.watermarks.tolist(), strict=True):
            self._take(now, record, stamp)

    def stretches(self, reached: int, watermarks: list[int]) -> Iterator[Stretch]:
        stamp, first, done = reached, 0, reached
        for time, records in self._changes(watermarks[-1]):
            end = time - 1
            if end > done:
                stop = bisect_left(watermarks, end, first)
                times = watermarks[first:stop]
                yield Stretch(self.matchers, [*times, end], [stamp, *times])
                stamp, first, done = times[-1] if times else stamp, stop, end
            for record in records:
                self._take(time, record, stamp)
        rest = watermarks[first:]
        yield Stretch(self.matchers, rest, [stamp, *rest])

    def _changes(self, up_to: int) -> list[tuple[int, list[Any]]]:
        """The records that are due, by the time at which they take effect."""
        due = [
            pair
            for batch in self._waiting.take(up_to)
            for pair in zip(batch.timestamps.tolist(), batch.rows, strict=True)
        ]
        due.sort(key=itemgetter(0))
        return [(time, [record for _, record in pairs]) for time, pairs in groupby(due, itemgetter(0))]

    # --- changes -----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Takes up the rules that are stored; one that does not fit the events any more is rejected."""
        self._is_loaded = True
        for id_, (number, version, text, pickled) in [*self._stored.items()]:
            rule = RuleVersion(id_, version, number)
            try:
                self._by_id[id_] = self._matcher(rule, pickled or text)
            except Exception as error:
                if is_interruption(error):
                    raise
                self._stored.remove(id_)
                self._drop_stores(number)
                said = f"version {version} of rule {id_!r} does not fit the events any more: {error}"
                self._user.reject(RejectedRule(MIN_WATERMARK, text, said), self._context.watermark)

    def _take(self, time: int, record: Any, stamp: int) -> None:
        """Applies a record."""
        try:
            self._change(self._reader.read(record), time)
        except Exception as error:
            if is_interruption(error):
                raise
            self._user.reject(RejectedRule(time, self._reader.text_of(record), str(error)), stamp)

    def _change(self, change: RuleChange, time: int) -> None:
        current = self._stored.get(change.id)
        if change.pattern is None:
            if current is None:
                raise InvalidProgramError(f"there is no rule {change.id!r} to be withdrawn")
            self._remove(change.id)
            self._tell("rule %r is withdrawn from %d on", change.id, time)
            return
        if current is not None and _is_same(current, change):
            return
        version = _version_behind(current, change)
        number = 1 + max((own for own, *_ in self._stored.values()), default=0)
        matcher = self._matcher(RuleVersion(change.id, version, number), change.pattern)
        if current is not None:
            self._remove(change.id)
        matcher.begin_epoch()
        text, pickled = (change.pattern, b"") if isinstance(change.pattern, str) else ("", change.pattern)
        self._stored.put(change.id, Row(number, version, text, pickled))
        self._by_id[change.id] = matcher
        self._tell("rule %r holds in version %d from %d on", change.id, version, time)

    def _matcher(self, rule: RuleVersion, pattern: str | bytes) -> PatternMatcher:
        automaton = self._reader.compile(pattern)
        if automaton.window > _LONGEST_WINDOW:
            raise InvalidProgramError(f"the window of {automaton.window} ms is longer than 2^61 ms")
        matcher = PatternMatcher(automaton, self._type, self._clock, rule, tells=self._tells)
        matcher.restore_state(self._context, self._domain)
        self._user.open_pattern(matcher)
        return matcher

    def _remove(self, id_: str) -> None:
        """Forgets a rule, with all that its version has found in part."""
        matcher = self._by_id.pop(id_)
        self._user.close_pattern(matcher)
        self._stored.remove(id_)
        assert matcher.rule is not None
        self._drop_stores(matcher.rule.number)

    def _drop_stores(self, number: int) -> None:
        for name in store_names(number):
            store = self._context.state.store(name)
            for run in store.runs:
                store.drop(run)

    def _tell(self, message: str, *about: object) -> None:
        if self._context.subtask == 0:
            logger.info(f"operator %r: {message}", self._context.name, *about)


def _is_same(current: StoredRule, change: RuleChange) -> bool:
    """Return whether a record changes nothing."""
    _, version, text, pickled = current
    return (pickled or text) == change.pattern and change.version in (None, version)


def _version_behind(current: StoredRule | None, change: RuleChange) -> int:
    """The version that a rule gets.

    Raises:
        InvalidProgramError: when it is not above the one that holds.
    """
    if current is None:
        return 1 if change.version is None else change.version
    version: int = current[1]
    if change.version is not None and change.version <= version:
        raise InvalidProgramError(
            f"rule {change.id!r} holds in version {version}, and version {change.version} is not above that"
        )
    return version + 1 if change.version is None else change.version
