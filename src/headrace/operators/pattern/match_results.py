"""The results of matches: a function of the user is called for each, or they become rows of columns.

Functions see partial matches that have timed out as well. The columns are the measures of ``MATCH_RECOGNIZE``, computed
for all matches of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import EvaluationError, InvalidProgramError, InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import OperatorContext, Output, UserCode
from headrace.operators.collector import RowCollector, results_of
from headrace.operators.functions import OTHER_NAMES_FOR_EMITTING, RuntimeContext, results_made_by
from headrace.operators.pattern.event_conditions import Events
from headrace.operators.pattern.match_values import Extents, MatchedRows, MatchExpressions
from headrace.operators.pattern.rules import RuleVersion
from headrace.operators.pattern.shared_buffer import MatchedEvents, PreferredMatch
from headrace.operators.user_code import user_error
from headrace.state.descriptors import StateDescriptor

PROCESS: Final = "process_match"
TIMED_OUT: Final = "process_timed_out_match"

Ranks = Mapping[tuple[int, int], int]
"""The ranks of keys, by where something is emitted and the position of the key."""

Found = tuple[int, int, str, MatchedEvents]
"""The place where a match is emitted, its time, the method of a function that is called for it, and the match."""


_OTHER_NAMES: Final = {
    **OTHER_NAMES_FOR_EMITTING,
    **dict.fromkeys(("get_rule_id", "pattern_id", "rule"), "rule_id() and rule_version() say which rule was found"),
}


@names_explained("PatternProcessFunction.Context", _OTHER_NAMES)
class PatternContext:
    """Tells a function about a match; the same object for all calls."""

    def __init__(self) -> None:
        self._timestamp = 0
        self._processing_time = 0
        self._rule: RuleVersion | None = None

    def begin_epoch(self, processing_time: int) -> None:
        """Notes the clock's reading."""
        self._processing_time = processing_time

    def timestamp(self) -> int:
        """The time of the match."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """The clock's reading for this epoch."""
        return self._processing_time

    def rule_id(self) -> str:
        """The id of the rule whose pattern has been found."""
        return self._of_rules("rule_id").id

    def rule_version(self) -> int:
        """Its version."""
        return self._of_rules("rule_version").version

    def _of_rules(self, method: str) -> RuleVersion:
        if self._rule is None:
            raise InvalidProgramError(
                f"{method}() is for CEP.dynamic_patterns(stream, rules); CEP.pattern(stream, pattern) has one pattern"
            )
        return self._rule


class PatternRuntimeContext(RuntimeContext):
    """The context of the functions of a pattern, which have no state."""

    def _state(self, descriptor: StateDescriptor, method: str) -> Any:
        raise InvalidProgramError(
            f"{method} in operator {self._context.name!r} ({self._context.call_site}): functions of a pattern have no "
            "state, as in Flink: what a match needs to know is in its events, and a KeyedProcessFunction behind it has "
            "state"
        )


class PatternFunction:
    """The function of the user for matches.

    Args:
        function: a ``PatternProcessFunction``.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
        handles_timeout: whether it is called for partial matches that have timed out.
        has_timestamps: whether what it yields has the time of the match as its timestamp.
    """

    def __init__(
        self,
        function: Any,
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
        *,
        handles_timeout: bool,
        has_timestamps: bool,
    ) -> None:
        self.handles_timeout = handles_timeout
        self.user_code: tuple[UserCode, ...] = ()
        self.context = PatternContext()
        self._has_timestamps = has_timestamps
        self._collector = RowCollector(output_type, side_types)
        names = (PROCESS, TIMED_OUT) if handles_timeout else (PROCESS,)
        self._called = {name: getattr(function, name) for name in names}
        self._made_by = {name: results_made_by(function, name) for name in names}
        self.maker: Callable[..., Any] | None = None if handles_timeout else self._made_by[PROCESS]

    def call(
        self,
        found: Sequence[Found],
        events: Events,
        stamps: Callable[[int], int],
        context: OperatorContext,
        output: Output,
        rules: Iterable[RuleVersion | None] = repeat(None),
    ) -> None:
        """Calls it for all that was found, and emits the results.

        Args:
            found: of each where it is emitted, its time, the method and the match, in order.
            events: the events.
            stamps: gives the watermark that is in force where something is emitted.
            context: the operator.
            output: takes the results.
            rules: the rule of each; None where there is one pattern.
        """
        if not found:
            return
        values = events.values([place for *_, match in found for _, place in match.path])
        collector, argument = self._collector, self.context
        shown: dict[str, list[Any]] = {}
        name, timestamp = PROCESS, 0
        try:
            for (emitted_at, timestamp, name, match), argument._rule in zip(found, rules, strict=False):
                shown = match.by_stage(values)
                argument._timestamp = timestamp
                if self.maker is None:
                    collector.marks.append((len(collector.rows), self._made_by[name]))
                results = self._called[name](shown, argument)
                if name == TIMED_OUT:
                    results = self._to_side_outputs(results)
                time = timestamp if self._has_timestamps else NO_TIMESTAMP
                collector.collect(results, time, stamps(emitted_at))
        except BaseException as error:
            raise user_error(error, context, shown, function=self._made_by[name], timestamp=timestamp) from error
        collector.flush(output, context)

    def _to_side_outputs(self, results: Iterable[Any] | None) -> list[Any]:
        """The results of ``process_timed_out_match``, all of which have a tag."""
        found = list(results_of(results, self._made_by[TIMED_OUT]))
        for result in found:
            if not (type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag):
                raise InvalidTypeError(
                    f"what {TIMED_OUT} gives goes to a side output, as in Flink: yield a tag and the record, "
                    f"yield OutputTag(...), value, not {result!r}"
                )
        return found


class MatchResults:
    """Matches that were found, to be brought into the order in which they are emitted.

    Attributes:
        position: the key whose matches are added.
    """

    def __init__(self) -> None:
        self._found: list[Found] = []
        self._positions: list[int] = []
        self.position = 0

    def add_match(self, emitted_at: int, timestamp: int, match: MatchedEvents) -> None:
        """Adds a match."""
        self._found.append((emitted_at, timestamp, PROCESS, match))
        self._positions.append(self.position)

    def add_timed_out(self, emitted_at: int, timestamp: int, match: MatchedEvents) -> None:
        """Adds a partial match that has timed out."""
        self._found.append((emitted_at, timestamp, TIMED_OUT, match))
        self._positions.append(self.position)

    def in_order(self, ranks: Ranks | None = None) -> list[Found]:
        """All that was found: by where it is emitted, then key by key.

        Args:
            ranks: the order of keys at each place; None for that of their positions.
        """
        if ranks is None:
            return sorted(self._found, key=itemgetter(0))
        return [self._found[number] for number in self._order(ranks)]

    def positions_in_order(self, ranks: Ranks | None = None) -> list[int]:
        """The key of each of these, in the same order."""
        return [self._positions[number] for number in self._order(ranks)]

    def _order(self, ranks: Ranks | None) -> list[int]:
        places = [found[0] for found in self._found]
        if ranks is None:
            return sorted(range(len(places)), key=places.__getitem__)
        pairs = zip(places, self._positions, strict=True)
        ranked = [(place, ranks.get((place, position), position)) for place, position in pairs]
        return sorted(range(len(ranked)), key=ranked.__getitem__)

    def by_key(self) -> Iterator[tuple[int, list[Found]]]:
        """All that was found, key by key."""
        pairs = zip(self._positions, self._found, strict=True)
        for position, own in groupby(pairs, itemgetter(0)):
            yield position, [found for _, found in own]


def in_order_of_rules(results: Sequence[MatchResults]) -> tuple[list[int], list[Found]]:
    """The matches of several patterns: by the place of their output, then key by key, by time, and pattern by pattern.

    Returns:
        The number of the pattern of each, and what was found.
    """
    places: list[tuple[int, int, int, int, int]] = []
    everything: list[Found] = []
    for number, each in enumerate(results):
        for position, own in each.by_key():
            # What one pattern finds of a key stays in its order, even where a time is before that of another find.
            times = accumulate((timestamp for _, timestamp, *_ in own), max)
            for found, time in zip(own, times, strict=True):
                places.append((found[0], position, time, number, len(everything)))
                everything.append(found)
    places.sort()
    return [place[3] for place in places], [everything[place[4]] for place in places]


Longs = npt.NDArray[np.int64]


class MatchColumns:
    """Makes a row of each match, or of each of its rows; takes the place of a function of the user.

    Attributes:
        user_code: the callers of user functions.
        variables: the variables of the pattern, by number.
        are_counted: whether matches have to be counted.
        match_numbers: the numbers of the matches of the next call, where they are counted.

    Args:
        expressions: an expression for each column.
        variables: the variables of the pattern, by number.
        type_: the type of the events.
        output_type: the type of the rows.
        has_timestamps: whether a row has the time of its match as its timestamp.
    """

    handles_timeout = False
    maker: Callable[..., Any] | None = None

    def __init__(
        self,
        expressions: MatchExpressions,
        variables: tuple[str, ...],
        type_: TypeInformation,
        output_type: TypeInformation,
        *,
        has_timestamps: bool,
    ) -> None:
        self.context = PatternContext()
        self.user_code = expressions.user_code
        self._expressions = expressions
        self.match_numbers: Longs | None = None
        self.variables = variables
        self._numbers = {name: number for number, name in enumerate(variables)}
        self.are_counted = expressions.are_counted
        self._type, self._output_type = type_, output_type
        self._has_timestamps = has_timestamps

    def call(
        self,
        found: Sequence[Found],
        events: Events,
        stamps: Callable[[int], int],
        context: OperatorContext,
        output: Output,
    ) -> None:
        """Emits the rows of all matches that were found.

        Args:
            found: of each where it is emitted, its time, the method of a function and the match, in order.
            events: the events.
            stamps: gives the watermark that is in force where something is emitted.
            context: the operator.
            output: takes the rows.
        """
        if not found:
            return
        results = _Results(found, self._expressions, self._numbers)
        try:
            columns = self._expressions.evaluate(self._matched(results, found, events))
        except EvaluationError as error:
            shown = {stage: [events.value(place) for place in places] for stage, places in results.shown_at(error.row)}
            raise user_error(error, context, shown) from error
        owners = results.owners
        if not len(owners):
            return
        times = results.times(found) if self._has_timestamps else np.full(len(owners), NO_TIMESTAMP)
        watermarks = np.array([stamps(emitted_at) for emitted_at, *_ in found], np.int64)[owners]
        schema = schema_of(self._output_type)
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(cast, schema=schema)
        output.emit(Batch(self._output_type, times, watermarks, columns=rows))

    def _matched(self, results: _Results, found: Sequence[Found], events: Events) -> MatchedRows:
        distinct, rows = np.unique(results.places, return_inverse=True)
        columns = layout_of(self._type).array_to_columns(events.column(distinct))
        return MatchedRows(
            columns,
            rows,
            results.variables,
            results.extents(),
            rows[results.shown],
            results.times(found),
            self.context.current_processing_time(),
            None if self.match_numbers is None else self.match_numbers[results.owners],
            self.variables,
        )


class _Results:
    """The rows of matches, and which results are made of them.

    Attributes:
        places: the places of the rows of all matches, with those before them that are looked at.
        variables: the variables of these; -1 for one that is not part of the match.
        owners: the number of the match of each result.
        shown: the row of each result among those of all matches.
    """

    def __init__(self, found: Sequence[Found], expressions: MatchExpressions, numbers: Mapping[str, int]) -> None:
        self._found = found
        places: list[int] = []
        variables: list[int] = []
        owners: list[int] = []
        shown: list[int] = []
        bounds: list[tuple[int, int, int]] = []
        for owner, (*_, match) in enumerate(found):
            low = len(places)
            if isinstance(match, PreferredMatch):
                places += match.before
                variables += [-1] * len(match.before)
            start = len(places)
            for stage, place in match.path:
                places.append(place)
                variables.append(numbers[stage])
            end = len(places)
            bounds.append((low, start, end))
            if start == end:
                assert isinstance(match, PreferredMatch), "only a preferred match may have no rows"
                places.append(match.begins_with)
                variables.append(-1)
                rows = [start] if expressions.with_empty else []
            elif expressions.all_rows:
                excluded = match.excluded if isinstance(match, PreferredMatch) else ()
                rows = [start + row for row in range(end - start) if row not in excluded]
            else:
                rows = [end - 1]
            owners += [owner] * len(rows)
            shown += rows
        self.places, self.variables = np.array(places, np.int64), np.array(variables, np.int64)
        self.owners, self.shown = np.array(owners, np.int64), np.array(shown, np.int64)
        self._bounds = np.array(bounds, np.int64)

    def extents(self) -> Extents:
        """The rows of each result."""
        lows, starts, ends = self._bounds[self.owners].T
        return Extents(lows, starts, np.minimum(self.shown + 1, ends), ends)

    def times(self, found: Sequence[Found]) -> Longs:
        """The time of each result."""
        return np.array([timestamp for _, timestamp, *_ in found], np.int64)[self.owners]

    def shown_at(self, result: int) -> Sequence[tuple[str, list[Any]]]:
        """The places of the rows of each stage of a result's match."""
        return list(self._found[self.owners[result]][-1].by_stage().items())
