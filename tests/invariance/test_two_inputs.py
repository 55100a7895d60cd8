"""Operators with two inputs that read branches of one stream: records come in the order in which they set out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.datastream.streams.data_stream import DataStream
from headrace.graph.specs import InputKind, PassingSpec
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.runtime.task.operator_table import register_operator
from headrace.state.descriptors import ValueStateDescriptor
from headrace.state.keys.entries import NO_KEY
from headrace.state.kinds import KEYED, StateKinds
from tests.invariance import test_rolling
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, examples, multiset, per_key, run
from tests.invariance.test_branches import Branch, bounds, branches, one_split

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.operators.keyed import KeyedBatch

NOTHING = -1
BY_SECOND = 1000
"""What is added to the value of a record that came by the second input."""

two_ways = st.lists(branches, min_size=2, max_size=2)


@dataclass(frozen=True, slots=True)
class LatestSpec(PassingSpec):
    """Records of the first input with the value that the second one had last for their key."""

    kind: ClassVar[str] = "Latest"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    state_kinds: ClassVar[StateKinds] = KEYED


class Latest(Operator):
    """Record by record."""

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        assert context.state is not None
        self._backend = context.state.keyed
        self._latest = self._backend.state(ValueStateDescriptor("latest", Types.LONG()))

    def process(self, input_index: int, batch: Batch) -> None:
        rows: list[Any] = []
        entries = self._backend.bind(cast("KeyedBatch", batch).keys)
        for entry, (key, value, time) in zip(entries, batch.rows, strict=True):
            self._backend.current = entry
            if input_index == 1:
                self._latest.update(value)
            else:
                latest = self._latest.value()
                rows.append((key, NOTHING if latest is None else latest, time))
        self._backend.current = NO_KEY
        if rows:
            self.output.emit(batch.replaced(EVENT, rows=rows, sources=np.arange(len(rows))))


@dataclass(frozen=True, slots=True)
class MarkSpec(PassingSpec):
    """The records of both inputs; those of the second are marked."""

    kind: ClassVar[str] = "Mark"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.ANY, InputKind.ANY)


class Mark(Operator):
    """Record by record."""

    def process(self, input_index: int, batch: Batch) -> None:
        rows: list[Any] = [(key, value + BY_SECOND * input_index, time) for key, value, time in batch.rows]
        self.output.emit(batch.replaced(EVENT, rows=rows, sources=np.arange(len(rows))))


register_operator(LatestSpec, lambda maker, planned, spec: Latest())
register_operator(MarkSpec, lambda maker, planned, spec: Mark())


def by_both(events: Sequence[Event], ways: Sequence[Branch]) -> list[tuple[int, Event]]:
    """What comes by which input, in the order in which it set out."""
    return [
        (index, event)
        for event in events
        for index, way in enumerate(ways)
        if way.keeps_all(event)
        for _ in range(way.copies)
    ]


@examples(
    60, values=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9)), max_size=40), ways=two_ways, cut=cuts
)
def test_keyed_inputs(values: list[tuple[str, int]], ways: list[Branch], cut: Cut) -> None:
    """Each record sees what was set before it, wherever epochs, pieces and batches end.

    Each record has a watermark of its own: behind a shuffle, records that meet the same one come input by input.
    """
    ways = [replace(way, bound=None) for way in ways]
    events = [(key, value, time) for time, (key, value) in enumerate(values)]

    def build(job: Job) -> None:
        stream = job.source("events", [events], 0)
        first, second = (way.build(stream).key_by("f0") for way in ways)
        job.sink("out", job.keyed("latest", DataStream._apply(first, LatestSpec(), "Latest", second)))

    latest: dict[str, int] = {}
    expected = []
    for index, (key, value, time) in by_both(events, ways):
        if index == 0:
            expected.append((key, latest.get(key, NOTHING), time))
        else:
            latest[key] = value
    found = [(record, 0) for record, _ in run(build, cut)["out"]]
    assert multiset(found) == multiset([(record, 0) for record in expected])


@examples(60, events=one_split, bound=bounds, ways=two_ways, is_behind=st.booleans(), cut=cuts)
def test_inputs_within_a_chain(events: list[Event], bound: int, ways: list[Branch], is_behind: bool, cut: Cut) -> None:
    """Before a shuffle and behind one; the order shows in what a function of two records makes of them."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        if is_behind:
            stream = stream.key_by("f0").reduce(lambda _, event: event).set_parallelism(1).uid("behind")
        first, second = (way.build(stream) for way in ways)
        marked = DataStream._apply(first, MarkSpec(), "Mark", second)
        job.sink("out", job.keyed("reduce", marked.key_by(lambda event: event[0]).reduce(test_rolling.combine)))

    marked = [(key, value + BY_SECOND * index, time) for index, (key, value, time) in by_both(events, ways)]
    found = {key: [row[:3] for row in rows] for key, rows in per_key(run(build, cut)["out"]).items()}
    assert found == {key: [row[:3] for row in rows] for key, rows in test_rolling.expected(marked).items()}
