"""``PatternOperator``: Flink's ``CepOperator``.

In event time an event waits until the watermark has reached its timestamp; the events of a key are then matched in the
order of their timestamps, those with one timestamp as a comparator says, or as they came. In processing time they are
matched as they come; with a comparator they wait for the next tick of the clock. Where rules change in processing time,
those that an epoch reads hold for all its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, fixed_width
from headrace.common.batch import Batch
from headrace.common.columns import array_to_values
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation
from headrace.metrics.registry import RULES_REJECTED
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext, Output, concat_keyed
from headrace.operators.changelog.order import SortField, millis_of, order_codes
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows, check_stores
from headrace.operators.functions import FunctionOperator, RuntimeContext, close_all
from headrace.operators.pattern.event_conditions import Events, KnownColumns
from headrace.operators.pattern.found_matches import FoundMatches
from headrace.operators.pattern.key_matching import KeyMatching, KeyOrder, SetTimer
from headrace.operators.pattern.keyed_events import AllEvents, DueKeys, KeyedEvents
from headrace.operators.pattern.match_results import (
    MatchColumns,
    MatchResults,
    PatternFunction,
    PatternRuntimeContext,
    in_order_of_rules,
)
from headrace.operators.pattern.pattern_matcher import PatternMatcher
from headrace.operators.pattern.patterns_at_work import RULES, ChangingPatterns, PatternsAtWork
from headrace.operators.pattern.preferred_matching import PreferredMatching
from headrace.operators.pattern.rules import RejectedRule
from headrace.operators.pattern.shared_buffer import NfaState, steps_of
from headrace.operators.pattern.stored_matches import StoredMatch
from headrace.operators.user_code import NO_RECORD, UserCodeGuard, user_error
from headrace.operators.waiting import STORE as WAITING_STORE
from headrace.operators.waiting import WaitingBatches, WaitingInTable
from headrace.operators.window.lateness import LateRecords, check_timestamps
from headrace.operators.window.table import firing_order
from headrace.state.keys import KeyColumn
from headrace.state.timers import EVENT, PROCESSING

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]

logger = get_logger(__name__)

_NUMBERS_STORE: Final = "match-numbers"
_NUMBERS: Final = pa.schema({"count": pa.int64()})

_MOST_WAITING: Final = 1 << 18
"""The number of events of an epoch that may wait: when there are as many, those that are due are matched."""

_MET: Final = "a pattern that is looked for in event time, and not in_processing_time()"
_BEYOND: Final = "the window of a match ends at a time"


@dataclass(frozen=True, slots=True)
class PatternSettings:
    """The definition of the search for a pattern.

    Attributes:
        compare: orders events with one timestamp; None where they come as they have arrived.
        late_tag: the id of the side output for late events; None drops and counts them.
        rejected: the side output for records of the stream of rules that change nothing, by its id, and its type; None
            counts them, and logs why.
        in_processing_time: whether the time of events is that of the clock.
        is_batch: whether the clock stands still until the input has ended.
        time_field: the position of the column that has the times of events; None where they are their timestamps.
        order: the sort fields of events with one timestamp, behind which they come as they have arrived.
    """

    compare: Callable[[Any, Any], int] | None = None
    late_tag: str | None = None
    rejected: tuple[str, TypeInformation] | None = None
    in_processing_time: bool = False
    is_batch: bool = False
    time_field: int | None = None
    order: tuple[SortField, ...] = ()


class PatternOperator(KeyedOperator, FunctionOperator):
    """Looks for patterns among the events of each key: for one, or for those of rules that change.

    Args:
        patterns: the patterns.
        function: what is called for matches, or makes rows of them.
        functions: all functions of the user, which are opened and closed.
        type_: the type of the events.
        settings: how they are looked for.
        codec: the codec of the keys, where these are looked at in the order of Flink's timers; following these takes a
            while.
    """

    def __init__(
        self,
        patterns: PatternsAtWork,
        function: PatternFunction | MatchColumns,
        functions: Sequence[object],
        type_: TypeInformation,
        settings: PatternSettings,
        codec: KeyCodec | None = None,
    ) -> None:
        super().__init__(*functions)
        self._patterns = patterns
        self._function = function
        self.maker = function.maker
        self._type = type_
        self._settings, self._compare = settings, settings.compare
        self._in_processing_time = settings.in_processing_time
        self._late = LateRecords(self, 0, settings.late_tag)
        patterns.bind(function.context.current_processing_time, self, tells=function.handles_timeout)
        self.user_code = (*patterns.user_code, *function.user_code)
        self._key_order = None if codec is None else KeyOrder(codec)
        self._numbers: _MatchNumbers | None = None
        self._arrived = WaitingBatches[KeyedBatch](_MOST_WAITING)
        self._watermark = MIN_WATERMARK
        self._now = 0
        self._next_timer: int | None = None
        self._is_open = False

    def restore_state(self, context: OperatorContext) -> None:
        own = [f"{WAITING_STORE}-0"]
        own += [_NUMBERS_STORE] if isinstance(self._function, MatchColumns) else []
        own += [firing_order.STORE] if self._key_order is not None else []
        known = [name for name in context.state.stored() if name in own or self._patterns.is_store(name)]
        check_stores(context, known)
        self._patterns.restore_state(context, PROCESSING if self._in_processing_time else EVENT)
        self._waiting = WaitingInTable(context.state, 0, self._type, context.renamed_fields, is_keyed=True)
        if isinstance(self._function, MatchColumns) and self._function.are_counted:
            self._numbers = _MatchNumbers(context)
        if self._key_order is not None:
            self._key_order.open(context)

    def open(self, context: OperatorContext, output: Output) -> None:
        self._no_keys = context.state.keyed.codec.encode([])
        super().open(context, output)
        self._is_open = True

    def close(self) -> None:
        self._patterns.close()
        super().close()

    def _runtime_context(self, context: OperatorContext) -> RuntimeContext:
        return PatternRuntimeContext(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark, self._now = scope.watermark, scope.processing_time
        self._function.context.begin_epoch(scope.processing_time)
        self._watermarks: list[int] = []
        self._rows = 0
        self._arrived.forget()
        self._patterns.begin_epoch()
        self._waiting.begin_epoch()
        if self._key_order is not None:
            self._key_order.begin_epoch(scope)
        if self._numbers is not None:
            self._numbers.begin_epoch()
        if self._in_processing_time and not self._settings.is_batch:
            self._tick(scope.processing_time)

    def process(self, input_index: int, batch: Batch) -> None:
        if input_index == RULES and len(batch):
            assert isinstance(self._patterns, ChangingPatterns), "a fixed pattern has one input"
            if self._in_processing_time:
                self._patterns.take(batch, self._now)
            else:
                self._note(batch.watermarks)
                self._patterns.add(batch, self._watermark)
        else:
            super().process(input_index, batch)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._in_processing_time:
            self._add_at_clock(batch)
            return
        field = self._settings.time_field
        if field is not None:
            batch = batch.with_timestamps(millis_of(batch.columns.column(field), self._type.field_names[field]))
        self._add_in_event_time(batch)

    def advance_watermark(self, watermark: int) -> None:
        if self._in_processing_time:
            self._match_arrived()
            if self._ends_with_input and watermark == MAX_WATERMARK > self._watermark:
                self._tick(MAX_WATERMARK)
        else:
            self._note(np.array([watermark]))
            self._match_due()
        self._watermark = max(self._watermark, watermark)
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        if self._in_processing_time:
            first = [matcher.timers.first for matcher in self._patterns.matchers]
            self._next_timer = min((time for time in first if time is not None), default=None)
        self._waiting.end_epoch()
        self._patterns.end_epoch()
        if self._key_order is not None:
            self._key_order.end_epoch()
        if self._numbers is not None:
            self._numbers.end_epoch()

    @property
    def _ends_with_input(self) -> bool:
        """True if the clock comes to the end of time when the input has ended."""
        return self._settings.is_batch or any(matcher.decides_at_end for matcher in self._patterns.matchers)

    def wake_up_time(self) -> int | None:
        return self._next_timer

    def held_matches(self, context: OperatorContext) -> Iterator[StoredMatch]:
        """The partial matches, and those that wait for others, in any order, of an operator that is not open.

        Args:
            context: gives the state, at the beginning of an epoch.
        """
        self.restore_state(context)
        self._patterns.begin_epoch()
        for matcher in self._patterns.matchers:
            columns, found = matcher.matches.all()
            keys = context.state.keyed.codec.decode(columns.values)
            records = array_to_values(self._type, found.records)
            states = matcher.automaton.states
            rule = None if matcher.rule is None else matcher.rule.id
            for position, state in found.all_states().items():
                waits = matcher.automaton.preference is None
                held = [(step, states[at].stage if waits else None) for _, at, step in state.partial]
                for step, stage in [*held, *((step, None) for _, step in state.finished)]:
                    events: dict[str, list[Any]] = {}
                    taken = [each for each in steps_of(step) if states[each[0]].stage]
                    for taker, _, event, _ in reversed(taken):
                        events.setdefault(states[taker].stage, []).append(records[-1 - event])
                    if taken:
                        yield StoredMatch(keys[position], taken[-1][1][0], events, stage, rule)

    # --- rules that change -------------------------------------------------------------------------------------------

    def open_pattern(self, matcher: PatternMatcher) -> None:
        """Opens what the conditions of a rule call, unless only its state is looked at."""
        if not self._is_open:
            return
        for each in matcher.user_code:
            each.open(self.context)
        self._open_all(matcher.automaton.functions(), self.context)

    def close_pattern(self, matcher: PatternMatcher) -> None:
        """Closes it."""
        close_all([partial(self._close, function) for function in reversed(matcher.automaton.functions())])
        for each in matcher.user_code:
            each.close()

    def reject(self, rule: RejectedRule, stamp: int) -> None:
        """Tells, in one subtask, of a record of the stream of rules that changes nothing."""
        if not self._is_open or self.context.subtask:
            return
        since = "the beginning" if rule.time <= MIN_WATERMARK + 1 else rule.time
        where = f"the rules of {self.context.name} (uid {self.context.uid}), from {since} on"
        if self._settings.rejected is None:
            self.count(RULES_REJECTED)
            logger.warning("%s: %s was rejected: %s", where, rule.text, rule.reason)
        else:
            tag_id, type_ = self._settings.rejected
            row = (where, rule.text, rule.reason)
            self.output.emit_side(tag_id, Batch.of_rows(type_, [row], [rule.time], [stamp]))

    # --- event time --------------------------------------------------------------------------------------------------

    def _add_in_event_time(self, batch: KeyedBatch) -> None:
        check_timestamps(batch, self.context, max(self._patterns.reach, 1), _MET, _BEYOND)
        watermarks = batch.watermarks
        is_late = batch.timestamps <= watermarks
        if is_late.any():
            self._late.send_away(batch, is_late)
            batch = batch.take(np.flatnonzero(~is_late))
        self._note(watermarks)
        if self._key_order is not None:
            self._key_order.add(batch)
        self._waiting.add(batch)
        self._rows += len(watermarks)
        if self._rows >= _MOST_WAITING:
            self._match_due()

    def _note(self, watermarks: Longs) -> None:
        """Notes the watermarks that come, which never fall."""
        reached = self._watermarks[-1] if self._watermarks else self._watermark
        if watermarks[-1] > reached:
            new = watermarks[np.searchsorted(watermarks, reached, "right") :]
            self._watermarks += new[np.flatnonzero(np.diff(new, prepend=reached))].tolist()

    def _match_due(self) -> None:
        """Matches the events that the watermarks which have come let go."""
        self._rows = 0
        if not self._watermarks:
            return
        watermarks, self._watermarks = self._watermarks, []
        reached, self._watermark = self._watermark, watermarks[-1]
        for stretch in self._patterns.stretches(reached, watermarks):
            up_to = stretch.watermarks[-1]
            due = self._due(up_to)
            self._match(stretch.matchers, due, up_to, stretch.watermarks, stretch.stamps.__getitem__)

    # --- processing time ---------------------------------------------------------------------------------------------

    def _add_at_clock(self, batch: KeyedBatch) -> None:
        now = np.full(len(batch), self._now)
        if self._compare is None:
            are_many = self._arrived.add(0, batch.with_timestamps(now))
            if are_many and not isinstance(self._patterns, ChangingPatterns):  # rules hold for the whole epoch
                self._match_arrived()
        else:
            self._waiting.add(batch.with_times(now, np.full(len(batch), MIN_WATERMARK)))
            self._patterns.matchers[0].timers.register(now + 1, batch.keys)

    def _match_arrived(self) -> None:
        taken = self._arrived.take()
        if not taken.batches:
            return
        batch = concat_keyed(taken.batches)
        stamps = batch.watermarks.tolist().__getitem__
        self._match(self._patterns.matchers, batch, None, [], stamps, are_emitted_in_place=True)

    def _tick(self, now: int) -> None:
        """Lets the clock come to a time, with the events that have waited for it."""
        self._match(self._patterns.matchers, self._due(now - 1), now, [now], lambda _: self._watermark)

    # --- both --------------------------------------------------------------------------------------------------------

    def _match(
        self,
        matchers: Sequence[PatternMatcher],
        batch: KeyedBatch | None,
        timers_up_to: int | None,
        watermarks: list[int],
        stamps: Callable[[int], int],
        *,
        are_emitted_in_place: bool = False,
    ) -> None:
        """Matches events.

        Args:
            matchers: the patterns.
            batch: the events, in the order in which they came; None for none.
            timers_up_to: the time up to which timers are due; None where time stands still.
            watermarks: those that have come, or the time to which the clock has come; none where it stands still.
            stamps: gives the watermark that is in force where something is emitted.
            are_emitted_in_place: whether results come in the order of the events that they are made of, whatever keys
                these have; else by the watermark that lets them be made, then key by key.
        """
        timers = [None if timers_up_to is None else matcher.due_timers(timers_up_to) for matcher in matchers]
        if not matchers or (batch is None and not any(timers)):
            self._follow_watermarks(watermarks)
            return
        batch = self._evaluated(matchers, self._nothing() if batch is None else batch)
        due = DueKeys.of(batch, timers)
        up_to = watermarks[-1] if watermarks else self._now
        found = self._find(matchers, due, up_to)
        results: list[MatchResults] = []
        set_timers: list[SetTimer] = []
        are_several = len(matchers) > 1 and self._compare is None
        every = AllEvents(batch, due[0], watermarks) if are_several else None
        for matcher, own_due, own_found in zip(matchers, due, found, strict=True):
            keyed = KeyedEvents(matcher.nfa, matcher.evaluated, batch, own_due, own_found, up_to, every)
            self._sort(keyed)
            matcher.look_back(keyed, own_found, self._events)
            ordered = keyed.ordered(watermarks, are_emitted_in_place=are_emitted_in_place)
            results.append(MatchResults())
            stamp = stamps(len(watermarks) - 1) if watermarks else 0
            matching = matcher.matching(ordered, watermarks, results[-1], int(self._in_processing_time), stamp)
            self._follow_timers(matching, set_timers)
            changed = self._matched(matcher, matching, keyed, own_found)
            matcher.matches.write(own_due.keys, changed, self._events, own_found, keyed.expired, keyed.passed)
            matcher.set_timers(matching.timers, own_due.keys)
        if matchers[0].rule is None:
            self._emit(results[0], watermarks, due[0].keys, set_timers, stamps)
        else:
            self._emit_of_rules(matchers, results, stamps)

    def _follow_watermarks(self, watermarks: list[int]) -> None:
        """Brings Flink's timers to watermarks at which nothing is matched."""
        if self._key_order is not None:
            self._key_order.ranks(watermarks, None, [])

    def _follow_timers(self, matching: KeyMatching | PreferredMatching, set_timers: list[SetTimer]) -> None:
        """Has the timers noted that a pattern sets, where keys come in the order of Flink's."""
        if self._key_order is not None and isinstance(matching, KeyMatching):
            matching.all_set = set_timers

    def _evaluated(self, matchers: Sequence[PatternMatcher], batch: KeyedBatch) -> KeyedBatch:
        """Evaluates events for each pattern; returns those that may matter."""
        self._events = Events(batch, pa.nulls(0, self._type.storage_type))
        known: KnownColumns = {}
        for matcher in matchers:
            matcher.evaluate(batch, self._events, known)
        kept = matchers[0].kept_events(batch) if len(matchers) == 1 else None
        if kept is None:
            return batch
        batch = batch.take(kept)
        self._events = Events(batch, self._events.taken)
        matchers[0].narrow(kept, batch, self._events)
        return batch

    def _find(self, matchers: Sequence[PatternMatcher], due: Sequence[DueKeys], up_to: int) -> list[FoundMatches]:
        """The partial matches of keys, of each pattern; the events that these have taken have places of their own."""
        found: list[FoundMatches] = []
        first = 0
        for matcher, own_due in zip(matchers, due, strict=True):
            found.append(matcher.find(own_due, up_to, first))
            first += len(found[-1].records)
        self._events.taken = concat([each.records for each in found])
        return found

    def _emit(
        self,
        results: MatchResults,
        watermarks: list[int],
        keys: KeyColumn,
        set_timers: Sequence[SetTimer],
        stamps: Callable[[int], int],
    ) -> None:
        """Calls the function for what the only pattern has found of some keys."""
        ranks = None if self._key_order is None else self._key_order.ranks(watermarks, keys, set_timers)
        if self._numbers is not None:
            assert isinstance(self._function, MatchColumns), "only rows have numbers of matches"
            positions = np.array(results.positions_in_order(ranks), np.int64)
            self._function.match_numbers = self._numbers.count(keys, positions)
        self._function.call(results.in_order(ranks), self._events, stamps, self.context, self.output)

    def _emit_of_rules(
        self, matchers: Sequence[PatternMatcher], results: Sequence[MatchResults], stamps: Callable[[int], int]
    ) -> None:
        """Calls the function for what rules have found."""
        assert isinstance(self._function, PatternFunction), "rows are made of one pattern"
        numbers, in_order = in_order_of_rules(results)
        rules = (matchers[number].rule for number in numbers)
        self._function.call(in_order, self._events, stamps, self.context, self.output, rules)

    def _sort(self, keyed: KeyedEvents) -> None:
        """Brings the events of a key with one time into order."""
        if self._compare is not None:
            with UserCodeGuard(self.context):
                keyed.sort(self._compare, self._events)
        if self._settings.order:
            keyed.sort_by(order_codes(self._events.arrived.columns, self._settings.order))

    def _matched(
        self,
        matcher: PatternMatcher,
        matching: KeyMatching | PreferredMatching,
        keyed: KeyedEvents,
        found: FoundMatches,
    ) -> dict[int, NfaState]:
        """Matches the events of each key; returns what keys have now whose partial matches have changed."""
        changed: dict[int, NfaState] = {}
        stored = found.states(keyed.decoded, keyed.moved, keyed.until)
        stored |= found.additions(keyed.only_adds, keyed.unread_visited)
        try:
            for position, start, stop, own in keyed.visits():
                state = stored.get(position) or NfaState()
                matching.run(position, state, start, stop, own)
                if state.is_changed:
                    changed[position] = state
        except BaseException as error:
            record = NO_RECORD if matching.place is None else self._events.value(matching.place)
            rule = matcher.rule
            name = self.context.name if rule is None else f"{self.context.name} for {rule}"
            raise user_error(error, replace(self.context, name=name), record) from error
        return changed

    def _due(self, up_to: int) -> KeyedBatch | None:
        """The events that wait no longer; None for none."""
        due = self._waiting.take(up_to)
        if not due:
            return None
        batch = concat_keyed(due)
        assert isinstance(batch, KeyedBatch), "the graph takes keyed records only"
        return batch

    def _nothing(self) -> KeyedBatch:
        nothing = np.empty(0, np.int64)
        return KeyedBatch.of(Batch.of_rows(self._type, [], nothing, nothing), self._no_keys)


class _MatchNumbers:
    """The number of matches of each key of a subtask so far, for ``MATCH_NUMBER()``.

    Args:
        context: the operator.
    """

    def __init__(self, context: OperatorContext) -> None:
        codec = context.state.keyed.codec
        self._rows = RowsOfKeys(context, _NUMBERS_STORE, "the numbers of matches", codec, _NUMBERS)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._rows.begin_epoch(0)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._rows.end_epoch()

    def count(self, keys: KeyColumn, positions: Longs) -> Longs:
        """Return the numbers of more matches.

        Args:
            keys: different keys, in the order of hash and key.
            positions: the key of each match, in the order in which those of a key are counted.
        """
        with_matches, of_matches, counts = np.unique(positions, return_inverse=True, return_counts=True)
        own = keys.take(with_matches)
        found = self._rows.find(own)
        before = np.zeros(len(own), np.int64)
        before[found.of_keys] = fixed_width(found.rows.column(0))
        by_key = np.argsort(of_matches, kind="stable")
        within = np.empty(len(positions), np.int64)
        within[by_key] = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = pa.RecordBatch.from_arrays([pa.array(before + counts)], schema=_NUMBERS)
        self._rows.write(own, StoredRows(np.arange(len(own)), rows), np.empty(0, np.int64))
        numbers: Longs = before[of_matches] + within + 1
        return numbers
