"""Rules that change while a job runs find the same, in the same order, however the input is cut.

Compared with a model in which each version of a rule is an automaton, which judges the events of its own time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from headrace.cep import CEP, Pattern, PatternProcessFunction, PatternRule, TimedOutPartialMatchHandler
from headrace.cep.compiler import compile_pattern
from headrace.common.constants import MAX_WATERMARK
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import NfaState
from tests.invariance.driver import Cut, Event, Job, deaths, examples, multiset, per_key, run
from tests.invariance.test_patterns import FIRST, is_large, is_small
from tests.invariance.test_two_inputs import DISORDER, splits_in_bounds

TOLD = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()])
TIMED_OUT, REJECTED = OutputTag("timed-out", TOLD), OutputTag("rejected")

SMALL, LARGE = "f1 < 5", "f1 >= 7"
RULES: Final[list[tuple[str, Pattern[Event]]]] = [
    (
        "small followed_by large within 10 ms",
        Pattern.begin("small").where(is_small).followed_by("large").where(is_large).within(10),
    ),
    (
        "small{2} followed_by large",
        Pattern.begin("small").where(is_small).times(2).followed_by("large").where(is_large),
    ),
    (
        "small next small2:small within 6 ms",
        Pattern.begin("small").where(is_small).next("small2").where(is_small).within(6),
    ),
]
"""Each as a text, and with functions, of which the automaton can evaluate events one by one."""

WITHDRAWN: Final = len(RULES)
WRONG: Final = len(RULES) + 1


def rule_of(change: Event) -> str:
    id_, kind, _ = change
    kind %= WRONG + 1
    if kind == WITHDRAWN:
        return PatternRule.withdrawn(id_).to_json()
    if kind == WRONG:
        return PatternRule(id_, "small", {"small": "f9 < 5"}).to_json()
    text = RULES[kind][0]
    used = {name: said for name, said in (("small", SMALL), ("large", LARGE)) if name in text}
    return PatternRule(id_, text, used).to_json()


class Told(PatternProcessFunction[Event, Any], TimedOutPartialMatchHandler[Event]):
    def process_match(self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield told(match, ctx.rule_id(), ctx.rule_version())

    def process_timed_out_match(
        self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context
    ) -> Iterator[tuple[OutputTag, Any]]:
        yield TIMED_OUT, told(match, ctx.rule_id(), ctx.rule_version())


def told(match: Mapping[str, list[Event]], rule: str, version: int) -> tuple[str, str, int, str]:
    (key, *_), *_ = next(iter(match.values()))
    return key, rule, version, str({stage: [event[1:] for event in events] for stage, events in match.items()})


@dataclass
class Version:
    """A version of a rule, and from when to when it holds."""

    id: str
    version: int
    kind: int
    since: int
    until: int = MAX_WATERMARK + 1

    def found_in(self, events: Sequence[Event]) -> Iterator[tuple[int, str, int, Any]]:
        """What becomes of the events: 0 for a match, 1 for a timeout; the key, the time, and what is told."""
        nfa = Nfa(compile_pattern(RULES[self.kind][1]))
        states: dict[str, NfaState] = defaultdict(NfaState)
        unknown = (1 << len(nfa.automaton.event_conditions)) - 1
        own = [event for event in events if self.since <= event[2] < self.until]
        ends = [(key, 0, self.until - 1) for key, *_ in own]
        for number, event in enumerate([*sorted(own, key=lambda one: one[2]), *ends]):
            key, _, time = event
            for late in nfa.advance_time(states[key], time).timed_out:
                yield 1, key, late.timestamp, told(late.match.by_stage(), self.id, self.version)
            for match in nfa.process(states[key], event, time, 0, unknown) if number < len(own) else ():
                yield 0, key, time, told(match.by_stage(), self.id, self.version)


def versions(changes: Sequence[Event]) -> tuple[list[Version], int]:
    """The versions of rules, and the number of changes that are rejected."""
    found: list[Version] = []
    held: dict[str, Version] = {}
    rejected = 0
    for id_, number, time in sorted(changes, key=lambda change: change[2]):
        kind, before = number % (WRONG + 1), held.get(id_)
        if kind == WRONG or (kind == WITHDRAWN and before is None):
            rejected += 1
        elif before is None or before.kind != kind:
            if before is not None:
                before.until = time
                del held[id_]
            if kind != WITHDRAWN:
                held[id_] = Version(id_, 1 if before is None else before.version + 1, kind, time)
                found.append(held[id_])
    return found, rejected


def expected(events: Sequence[Event], changes: Sequence[Event]) -> list[dict[str, list[Any]]]:
    """The matches and the timeouts of each key, in order, with their times."""
    everything: list[dict[str, list[Any]]] = [defaultdict(list), defaultdict(list)]
    for version in versions(changes)[0]:
        reached: dict[tuple[int, str], int] = {}
        for kind, key, time, row in version.found_in(events):
            reached[kind, key] = max(reached.get((kind, key), time), time)
            everything[kind][key].append((reached[kind, key], version.id, (*row, time)))
    return [
        {key: [row for *_, row in sorted(rows, key=lambda one: one[:2])] for key, rows in each.items()}
        for each in everything
    ]


one_split = splits_in_bounds(1).map(lambda splits: [(key, n, FIRST + time) for key, n, time in splits[0]])


@examples(40, events=one_split, changes=one_split, is_batch=st.booleans(), cut=deaths)
def test_what_rules_find(events: list[Event], changes: list[Event], is_batch: bool, cut: Cut) -> None:
    def build(job: Job) -> None:
        stream = job.source("events", [events], DISORDER).key_by("f0")
        rules = job.source("rules", [changes], DISORDER).map(rule_of, Types.STRING())
        patterns = CEP.dynamic_patterns(stream, rules).side_output_rejected_rules(REJECTED)
        found = job.keyed("patterns", patterns.process(Told(), TOLD))
        job.sink("matches", found)
        job.sink("timeouts", found.get_side_output(TIMED_OUT))
        job.sink("rejected", found.get_side_output(REJECTED))

    found = run(build, cut, is_batch=is_batch)
    matches, timeouts = expected(events, changes)
    assert per_key(found["matches"]) == matches
    assert per_key(found["timeouts"]) == timeouts
    assert len(multiset(found["rejected"])) == versions(changes)[1]
