"""Compiles a pattern into an automaton, as Flink's NFACompiler does, from its last stage to its first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.cep.definition import (
    NOT_AFTER_OPTIONAL,
    ConsumingStrategy,
    PatternStructure,
    Quantifier,
    QuantifierProperty,
    Times,
    WithinType,
)
from headrace.common.call_site import warn_caller
from headrace.common.errors import HeadraceError, InvalidProgramError, UnsupportedOperationError
from headrace.operators.pattern.automaton import Action, Automaton, AutomatonState, StateType, Transition
from headrace.operators.pattern.conditions import ALWAYS, And, Condition, EventBit, Not

END: Final = "$endState$"

_MOST_STATES: Final = 1 << 15
"""State has the numbers of states in 16 bits."""


def compile_pattern(pattern: PatternStructure[Any]) -> Automaton:
    """Compile a pattern.

    Raises:
        InvalidProgramError: when it is no pattern that can be matched; the message names the line of the stage.
    """
    return _Compiler(pattern).compile()


@dataclass(slots=True, eq=False)
class _Way:
    action: Action
    source: _Draft
    target: _Draft
    condition: Condition


@dataclass(slots=True, eq=False)
class _Draft:
    """A state while it is made."""

    name: str
    stage: str
    kind: StateType
    is_repeated_name: bool
    gap: int = 0
    ways: list[_Way] = field(default_factory=list)

    def add(self, action: Action, target: _Draft, condition: Condition) -> None:
        self.ways.append(_Way(action, self, target, condition))

    def take(self, target: _Draft, condition: Condition) -> None:
        self.add(Action.TAKE, target, condition)

    def ignore(self, target: _Draft, condition: Condition) -> None:
        self.add(Action.IGNORE, target, condition)

    def proceed(self, target: _Draft, condition: Condition) -> None:
        self.add(Action.PROCEED, target, condition)

    @property
    def is_final(self) -> bool:
        return self.kind is StateType.FINAL


class _Compiler:
    def __init__(self, pattern: PatternStructure[Any]) -> None:
        self._pattern = pattern
        self._current = pattern
        self._following: PatternStructure[Any] | None = None
        self._group: PatternStructure[Any] | None = None
        self._is_first_of_loop: dict[PatternStructure[Any], bool] = {}
        self._drafts: list[_Draft] = []
        self._names: set[str] = set()
        self._next_numbers: dict[str, int] = {}
        self._stops: dict[str, _Draft] = {}
        self._originals: dict[str, _Draft] = {}
        self._window: int | None = None
        self._lost: HeadraceError | None = None
        self._event_conditions: list[Condition] = []
        self._lifted: dict[Condition, Condition] = {}

    def compile(self) -> Automaton:
        self._check_names()
        self._check_skip_strategy()
        end = self._draft(END, StateType.FINAL)
        self._window = self._current.get_window_size()
        start = self._convert(self._middle(end))
        start.kind = StateType.START
        self._check_windows()
        self._check_end()
        if self._lost is not None:
            raise self._lost
        self._check_proceeding(start)
        self._warn_of_gaps()
        return self._frozen(start)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _check_names(self) -> None:
        seen = {END}
        for stage in _parts(self._pattern):
            if stage.group is not None:
                continue
            name = stage.get_name()
            if name in seen:
                raise _refused(stage, f"Duplicate pattern name: {name}. Names must be unique.")
            seen.add(name)

    def _check_skip_strategy(self) -> None:
        name = self._pattern.get_after_match_skip_strategy().named_stage
        if name is not None and all(stage.group or stage.get_name() != name for stage in self._pattern.stages()):
            raise _refused(
                self._pattern,
                "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern: "
                f"{name} is none of its own stages",
            )

    def _check_windows(self) -> None:
        window = self._window
        if window is not None and any(draft.gap > window for draft in self._drafts):
            raise _refused(
                self._pattern,
                "The window length between the previous and current event cannot be larger than the window length "
                "between the first and last event for a Pattern.",
            )

    def _check_end(self) -> None:
        last = self._pattern
        if last.get_quantifier().consuming_strategy is not ConsumingStrategy.NOT_FOLLOW or self._window:
            return
        if not any(draft.name == last.get_name() and draft.gap > 0 for draft in self._drafts):
            raise _refused(last, "NotFollowedBy is not supported without windowTime as a last part of a Pattern!")

    def _check_proceeding(self, start: _Draft) -> None:
        """Refuse what makes Flink fail or loop when an event comes: a loop without events, a NOT before any event."""
        for draft in self._drafts:
            if any(_reaches(way.target, draft) for way in draft.ways if way.action is Action.PROCEED):
                raise _refused(
                    self._pattern,
                    "a group that repeats has only optional stages: it could repeat for ever without an event. Make a "
                    "stage of it required",
                )
        if any(_reaches(start, stop) for stop in self._stops.values()):
            raise _refused(self._pattern, NOT_AFTER_OPTIONAL, UnsupportedOperationError)

    def _warn_of_gaps(self) -> None:
        """Tell of windows between events that change nothing, as in Flink."""
        kept = {draft.stage for draft in self._drafts if draft.gap > 0 and draft.kind is not StateType.START}
        for stage in _parts(self._pattern):
            times = stage.get_times()
            gaps = [stage.get_window_size(WithinType.PREVIOUS_AND_CURRENT), times.gap if times is not None else None]
            if any(gaps) and (stage.get_name() not in kept or (gaps[0] and times is not None)):
                warn_caller(
                    f"a window between the events of {stage.get_name()} changes nothing: within(..., "
                    "PREVIOUS_AND_CURRENT) is for single stages but the first, and window_time for stages, not groups. "
                    f"It was said at {stage.site}"
                )

    # --- states ------------------------------------------------------------------------------------------------------

    def _draft(self, base: str, kind: StateType) -> _Draft:
        name, number = base, self._next_numbers.get(base, 0)
        while name in self._names:
            name, number = f"{base}\0{number}", number + 1
        if len(self._drafts) == _MOST_STATES:
            raise _refused(
                self._current, f"the pattern has more than {_MOST_STATES} states: repeat its stages less often"
            )
        self._names.add(name)
        self._next_numbers[base] = number
        draft = _Draft(name, base.partition("\0")[0], kind, is_repeated_name="\0" in name)
        self._drafts.append(draft)
        return draft

    def _stage_draft(self, *, takes: bool, kind: StateType = StateType.NORMAL) -> _Draft:
        """Make a state of the current stage; one that takes its events may have a gap before it."""
        draft = self._draft(self._current.get_name(), kind)
        times = self._current.get_times()
        if takes and times is None:
            draft.gap = self._current.get_window_size(WithinType.PREVIOUS_AND_CURRENT) or 0
        elif takes and times is not None and draft.is_repeated_name:
            draft.gap = times.gap or 0
        return draft

    def _stop(self, condition: Condition, name: str) -> _Draft:
        stop = self._stops.get(name)
        if stop is None:
            stop = self._stops[name] = self._draft(name, StateType.STOP)
            stop.take(stop, condition)
        return stop

    def _middle(self, sink: _Draft) -> _Draft:
        """Make the states of all stages but the first of the current sequence, from the last one."""
        while (previous := self._current.get_previous()) is not None:
            strategy = self._current.get_quantifier().consuming_strategy
            if strategy is ConsumingStrategy.NOT_FOLLOW:
                sink = self._not_following(sink)
            elif strategy is ConsumingStrategy.NOT_NEXT:
                sink = self._not_next(sink)
            else:
                sink = self._convert(sink)
            self._following = self._current
            self._current = previous
            window = previous.get_window_size()
            if window is not None and (self._window is None or window < self._window):
                self._window = window
        return sink

    def _not_following(self, sink: _Draft) -> _Draft:
        """At the end of the pattern, wait for the window to pass; elsewhere, states around have its condition."""
        has_window = (
            self._current.get_window_size(WithinType.PREVIOUS_AND_CURRENT) is not None or (self._window or 0) > 0
        )
        if not (has_window and sink.is_final):
            if self._following_is_missing():
                self._lose("NotFollowedBy is not supported as a last part of a group: put it behind the group")
            return sink
        pending = self._stage_draft(takes=True, kind=StateType.PENDING)
        condition = self._take_condition(self._current)
        pending.proceed(self._stop(condition, self._current.get_name()), condition)
        pending.ignore(pending, Not(condition))
        return pending

    def _following_is_missing(self) -> bool:
        """Return whether the current stage is the last of a group."""
        return self._group is not None and self._current is self._group.group

    def _not_next(self, sink: _Draft) -> _Draft:
        state = self._stage_draft(takes=True)
        condition = self._take_condition(self._current)
        stop = self._stop(condition, self._current.get_name())
        state.add(Action.IGNORE if sink.is_final else Action.PROCEED, sink, Not(condition))
        state.proceed(stop, condition)
        return state

    def _convert(self, sink: _Draft) -> _Draft:
        """Make the states of the current stage."""
        quantifier = self._current.get_quantifier()
        times = self._current.get_times()
        if quantifier.kind is QuantifierProperty.LOOPING and times is not None:
            self._is_first_of_loop[self._current] = False
            looping = self._looping(self._without_nots(sink))
            self._is_first_of_loop[self._current] = True
            first = self._repeated(looping, sink, times)
        elif times is not None:
            first = self._repeated(sink, sink, times)
        else:
            condition, ignore = self._take_condition(self._current), self._ignore_condition(self._current)
            first = self._singleton(sink, sink, condition, ignore, is_optional=quantifier.is_optional)
        self._add_stops(first)
        return first

    # --- negation ----------------------------------------------------------------------------------------------------

    def _nots(self) -> list[tuple[Condition, str]]:
        """The stages before the current one that must not be satisfied, optional ones between included."""
        found = []
        before = self._current.get_previous()
        while before is not None:
            is_not = before.get_quantifier().consuming_strategy is ConsumingStrategy.NOT_FOLLOW
            if not (is_not or before.get_quantifier().is_optional):
                break
            if is_not:
                found.append((self._take_condition(before), before.get_name()))
            before = before.get_previous()
        return found

    def _without_nots(self, sink: _Draft) -> _Draft:
        """Copy states for when the current stage, which is optional, has taken an event: that ends the negation."""
        nots = self._nots()
        if not nots or not self._current.get_quantifier().is_optional:
            return sink
        names = {name for _, name in nots}
        copy = self._draft(sink.name, sink.kind)
        for way in sink.ways:
            if way.action is not Action.PROCEED:
                copy.add(way.action, copy if way.target is way.source else way.target, way.condition)
            elif way.target.kind is not StateType.STOP:
                copy.proceed(self._without_nots(way.target), way.condition)
            elif way.target.name not in names:
                copy.proceed(way.target, way.condition)
        return copy

    def _add_stops(self, state: _Draft) -> None:
        for condition, name in self._nots():
            state.proceed(self._stop(condition, name), condition)

    def _add_stop_of_following(self, state: _Draft) -> None:
        following = self._following
        if following is None or following.get_quantifier().consuming_strategy is not ConsumingStrategy.NOT_FOLLOW:
            return
        condition = self._take_condition(following)
        state.proceed(self._stop(condition, following.get_name()), condition)

    # --- quantifiers -------------------------------------------------------------------------------------------------

    def _repeated(self, sink: _Draft, proceed: _Draft, times: Times) -> _Draft:
        """Make as many states as the stage takes events at most, those of a loop aside."""
        current = self._current
        self._is_first_of_loop[current] = False
        until = self._until(current)
        inner = _unless(until, self._inner_ignore_condition(current), is_take=False)
        take = _unless(until, self._take_condition(current), is_take=True) or ALWAYS
        if current.get_quantifier().is_greedy and times.from_times != times.to_times:
            if until is not None:
                self._originals[sink.name] = self._copy(sink)
            _forbid(sink, take)
        last = sink
        for _ in range(times.from_times, times.to_times):
            last = self._singleton(last, proceed, take, inner, is_optional=True)
            self._add_stop_of_following(last)
        for _ in range(times.from_times - 1):
            last = self._singleton(last, None, take, inner, is_optional=False)
            self._add_stop_of_following(last)
        self._is_first_of_loop[current] = True
        is_optional = current.get_quantifier().is_optional
        return self._singleton(last, proceed, take, self._ignore_condition(current), is_optional=is_optional)

    def _singleton(
        self, sink: _Draft, proceed: _Draft | None, take: Condition, ignore: Condition | None, *, is_optional: bool
    ) -> _Draft:
        """Make a state that takes one event; where it may be left out, a second one waits, so that it is left once."""
        if self._current.group is not None:
            return self._grouped(sink, proceed if is_optional else None)
        state = self._stage_draft(takes=True)
        taken = self._without_nots(sink)
        state.take(taken, take)
        if is_optional and proceed is not None:
            self._proceed(state, proceed)
        if ignore is not None:
            waiting = state
            if is_optional or self._is_head_of_optional_group():
                waiting = self._stage_draft(takes=False)
                waiting.take(taken, take)
                waiting.ignore(waiting, ignore)
                self._add_stops(waiting)
            state.ignore(waiting, ignore)
        return state

    def _proceed(self, state: _Draft, target: _Draft) -> None:
        """Let a state be left without an event; where a greedy loop is ended by an event, without its restrictions."""
        always = self._always()
        until = self._until(self._current) if self._current.get_quantifier().is_greedy else None
        if until is None:
            state.proceed(target, always)
            return
        state.proceed(self._originals.get(target.name, target), And(always, until))
        state.proceed(target, And(always, Not(until)))

    def _grouped(self, sink: _Draft, proceed: _Draft | None) -> _Draft:
        """Make the states of a group once."""
        always = self._always()
        first = self._inside_group(sink)
        if proceed is not None:
            first.proceed(proceed, always)
        return first

    def _inside_group(self, sink: _Draft) -> _Draft:
        group = self._current.group
        assert group is not None
        outer = self._current, self._following, self._group
        self._group, self._current = self._current, group
        if group.get_window_size() is not None:
            self._lose("within() on the last stage of a group would be lost: call it on the group")
        first = self._convert(self._middle(sink))
        self._current, self._following, self._group = outer
        return first

    def _looping(self, sink: _Draft) -> _Draft:
        """Make the state of a loop, which takes an event again and again, and one that waits for the next."""
        if self._current.group is not None:
            return self._looping_group(sink)
        current = self._current
        is_greedy = current.get_quantifier().is_greedy
        until = self._until(current)
        ignore = _unless(until, self._inner_ignore_condition(current), is_take=False)
        take = _unless(until, self._take_condition(current), is_take=True) or ALWAYS
        state = self._stage_draft(takes=True)
        if is_greedy and until is not None:
            self._originals[sink.name] = self._copy(sink)
        self._proceed(state, sink)
        if is_greedy:
            _forbid(sink, self._take_condition(current))
        state.take(state, take)
        self._add_stop_of_following(state)
        if ignore is not None:
            waiting = self._stage_draft(takes=False)
            waiting.take(state, take)
            waiting.ignore(waiting, ignore)
            state.ignore(waiting, ignore)
            self._add_stop_of_following(waiting)
        return state

    def _looping_group(self, sink: _Draft) -> _Draft:
        always = self._always()
        again = self._stage_draft(takes=True)
        first = self._inside_group(again)
        first.proceed(sink, always)
        again.proceed(first, always)
        return first

    def _copy(self, state: _Draft) -> _Draft:
        copy = self._draft(state.stage, state.kind)
        for way in state.ways:
            copy.add(way.action, copy if way.target is way.source else way.target, way.condition)
        return copy

    # --- conditions --------------------------------------------------------------------------------------------------

    def _lift(self, condition: Condition) -> Condition:
        """Replace what looks at the event alone by bits."""
        lifted = self._lifted.get(condition)
        if lifted is None:
            lifted = self._lifted[condition] = self._lift_parts(condition)
        return lifted

    def _lift_parts(self, condition: Condition) -> Condition:
        if condition is ALWAYS:
            return condition
        if condition.looks_at_event_alone:
            self._event_conditions.append(condition)
            return EventBit(len(self._event_conditions) - 1)
        parts = condition.parts()
        return type(condition)(*map(self._lift, parts)) if parts else condition

    def _until(self, stage: PatternStructure[Any]) -> Condition | None:
        condition = stage.get_until_condition()
        return None if condition is None else self._lift(condition)

    def _until_of_group(self) -> Condition | None:
        return None if self._group is None else self._until(self._group)

    def _take_condition(self, stage: PatternStructure[Any]) -> Condition:
        return _unless(self._until_of_group(), self._lift(stage.get_condition()), is_take=True) or ALWAYS

    def _always(self) -> Condition:
        return _unless(self._until_of_group(), ALWAYS, is_take=True) or ALWAYS

    def _ignore_condition(self, stage: PatternStructure[Any]) -> Condition | None:
        """Return the condition of events that may be ignored before the first event of a stage."""
        quantifier = stage.get_quantifier()
        if not self._is_head_of_group(stage):
            return self._ignorable(stage, quantifier.consuming_strategy)
        outer = self._outer_quantifier()
        is_first = self._is_first_of_loop.get(self._group, True) if self._group is not None else True
        return self._ignorable(stage, outer.consuming_strategy if is_first else outer.inner_consuming_strategy)

    def _inner_ignore_condition(self, stage: PatternStructure[Any]) -> Condition | None:
        """Return the condition of events that may be ignored between the events of a stage."""
        quantifier = self._outer_quantifier() if self._is_head_of_group(stage) else stage.get_quantifier()
        return self._ignorable(stage, quantifier.inner_consuming_strategy)

    def _ignorable(self, stage: PatternStructure[Any], strategy: ConsumingStrategy) -> Condition | None:
        condition: Condition | None = None
        if strategy is ConsumingStrategy.SKIP_TILL_NEXT:
            condition = Not(self._lift(stage.get_condition()))
        elif strategy is ConsumingStrategy.SKIP_TILL_ANY:
            condition = ALWAYS
        return _unless(self._until_of_group(), condition, is_take=False)

    # --- groups ------------------------------------------------------------------------------------------------------

    def _is_head_of_group(self, stage: PatternStructure[Any]) -> bool:
        return self._group is not None and stage.get_previous() is None

    def _outer_quantifier(self) -> Quantifier:
        assert self._group is not None
        return self._group.get_quantifier()

    def _is_head_of_optional_group(self) -> bool:
        if not self._is_head_of_group(self._current) or self._group is None:
            return False
        return self._is_first_of_loop.get(self._group, True) and self._outer_quantifier().is_optional

    def _lose(self, message: str) -> None:
        """Refuse in the end what Flink drops without a word; what Flink refuses goes first."""
        self._lost = self._lost or _refused(self._current, message)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _frozen(self, start: _Draft) -> Automaton:
        index = {draft: at for at, draft in enumerate(self._drafts)}
        states = tuple(
            AutomatonState(
                draft.name.replace("\0", ":"),
                draft.stage,
                draft.kind,
                tuple(Transition(way.action, index[way.target], way.condition) for way in draft.ways),
                draft.gap,
            )
            for draft in self._drafts
        )
        return Automaton(
            states,
            index[start],
            self._window or 0,
            self._pattern.get_after_match_skip_strategy(),
            tuple(self._event_conditions),
            any(_reaches(start, draft) for draft in self._drafts if draft.is_final),
        )


def _unless(until: Condition | None, condition: Condition | None, *, is_take: bool) -> Condition | None:
    """A condition that does not hold for events that end a loop."""
    if until is None:
        return condition
    if condition is not None:
        return And(Not(until), condition)
    return Not(until) if is_take else None


def _forbid(state: _Draft, condition: Condition) -> None:
    """Keep a state from doing anything with the events that a greedy stage before it takes."""
    for way in state.ways:
        way.condition = And(way.condition, Not(condition))


def _reaches(state: _Draft, wanted: _Draft) -> bool:
    """Return whether a state is reached without an event."""
    seen: set[_Draft] = set()
    waiting = [state]
    while waiting:
        at = waiting.pop()
        if at is wanted:
            return True
        if at not in seen:
            seen.add(at)
            waiting += [way.target for way in at.ways if way.action is Action.PROCEED]
    return False


def _parts(pattern: PatternStructure[Any]) -> Iterator[PatternStructure[Any]]:
    """All stages and groups, those in groups included."""
    for stage in pattern.stages():
        yield stage
        if stage.group is not None:
            yield from _parts(stage.group)


def _refused(
    stage: PatternStructure[Any], message: str, error: type[HeadraceError] = InvalidProgramError
) -> HeadraceError:
    return error(f"{message}\n  at {stage.site}")
