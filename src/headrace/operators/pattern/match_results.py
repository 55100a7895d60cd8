"""What becomes of matches, and of partial matches that have timed out: a function of the user is called for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, repeat
from operator import itemgetter
from typing import Any, Final

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import OperatorContext, Output, UserCode
from headrace.operators.collector import RowCollector, results_of
from headrace.operators.functions import OTHER_NAMES_FOR_EMITTING, RuntimeContext, results_made_by
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.matches import MatchedEvents
from headrace.operators.pattern.rules import RuleVersion
from headrace.operators.user_code import user_error
from headrace.state.descriptors import StateDescriptor

PROCESS: Final = "process_match"
TIMED_OUT: Final = "process_timed_out_match"

Ranks = Mapping[tuple[int, int], int]
"""The ranks of keys, by where something is emitted and the position of the key."""

Found = tuple[int, int, str, MatchedEvents]
"""Where it is emitted, its time, the method of a function that is called for it, and the match."""


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
    """That of the functions of a pattern, which have no state."""

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
        handles_timeout: whether it is told of partial matches that have timed out.
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
        collector, asked = self._collector, self.context
        shown: dict[str, list[Any]] = {}
        name, timestamp = PROCESS, 0
        try:
            for (emitted_at, timestamp, name, match), asked._rule in zip(found, rules, strict=False):
                shown = match.by_stage(values)
                asked._timestamp = timestamp
                if self.maker is None:
                    collector.marks.append((len(collector.rows), self._made_by[name]))
                results = self._called[name](shown, asked)
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
    """What several patterns have found: by where it is emitted, then key by key, by time, and pattern by pattern.

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
