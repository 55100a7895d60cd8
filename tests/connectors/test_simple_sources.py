"""Collections, sequences and generated records: the same records however the job cuts its epochs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.connectors.ranges import CollectionSource, DataGeneratorSource, NumberSequenceSource, RateLimiterStrategy
from headrace.connectors.source import Boundedness, ReadBudget
from headrace.datastream import CheckpointedFunction
from tests.connectors.harness import SourceRun, read_all
from tests.draws import draws

if TYPE_CHECKING:
    import numpy as np

NOWHERE = Path("/nowhere")
budgets = st.builds(ReadBudget, records=st.integers(1, 3000), bytes=st.integers(100, 100_000), pieces=st.integers(1, 5))


@dataclass
class Person:
    name: str
    age: int


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), budgets)
def test_a_collection_is_read_in_order(elements: list[int], budget: ReadBudget) -> None:
    assert read_all(CollectionSource(elements, Types.LONG()), NOWHERE, budget) == elements


@pytest.mark.parametrize(
    ("elements", "kind"),
    [
        ([1, 2], None),
        (["a", "b"], None),
        ([(1, "a"), (2, "b")], None),
        ([Person("Ada", 36)], Person),
        ([Row(id=1)], Types.ROW_NAMED(["id"], [int])),
        ([{"a": object}, 3, None], Types.PICKLED_BYTE_ARRAY()),
        ([], None),
        ([1, "mixed"], None),
    ],
)
def test_a_collection_keeps_its_elements(elements: list[Any], kind: Any) -> None:
    assert read_all(CollectionSource(iter(elements), kind), NOWHERE) == elements


def test_a_collection_checks_its_elements_at_once() -> None:
    with pytest.raises(InvalidTypeError, match="row 1"):
        CollectionSource([1, "two"], Types.LONG())


def test_a_columnar_collection_is_read_as_slices() -> None:
    source = pickle.loads(pickle.dumps(CollectionSource([1, 2, 3], Types.LONG())))
    (records,) = source.create_reader().read([1, 3])
    assert records.columns.column(0).to_pylist() == [2, 3]
    assert source.boundedness is Boundedness.BOUNDED


@pytest.mark.parametrize(
    ("start", "end"), [(1, 10), (5, 5), (1, 0), (-3, 3), (2**63 - 3, 2**63 - 1), (-(2**63), -(2**63) + 2)]
)
def test_a_sequence_has_both_bounds(start: int, end: int) -> None:
    budget = ReadBudget(records=4, bytes=10**6, pieces=3)
    assert read_all(NumberSequenceSource(start, end), NOWHERE, budget) == list(range(start, end + 1))


@pytest.mark.parametrize(("start", "end"), [(2, 0), (0, 2**63), (-(2**63) - 1, 0), (0.5, 2)])
def test_a_sequence_refuses_other_bounds(start: Any, end: Any) -> None:
    with pytest.raises(InvalidProgramError):
        NumberSequenceSource(start, end)


def make_batch(indices: np.ndarray[Any, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"id": indices, "price": rng.uniform(0, 100, len(indices)), "name": pa.array(indices.astype(str))}


PRICES = Types.ROW_NAMED(["id", "name", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])


def random_row(index: int, rng: Any) -> tuple[int, float]:
    return index, rng.random()


def named_record(index: int) -> str:
    return f"record {index}"


GENERATORS = [
    DataGeneratorSource(named_record, 2_000, type_info=Types.STRING()),
    DataGeneratorSource(random_row, 2_000, type_info=Types.TUPLE([int, float]), seed=7),
    DataGeneratorSource(batch_generator=make_batch, count=2_000, type_info=PRICES, seed=-7),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", GENERATORS)
@given(budget=st.builds(ReadBudget, records=st.integers(100, 1200), bytes=st.just(10**9), pieces=st.integers(1, 5)))
@settings(max_examples=draws(30), deadline=None)
def test_generated_records_depend_on_their_number_alone(source: DataGeneratorSource, budget: ReadBudget) -> None:
    whole = read_all(source, NOWHERE)
    assert len(whole) == 2_000
    assert read_all(source, NOWHERE, budget) == whole


def test_another_seed_makes_other_records() -> None:
    one, two = (DataGeneratorSource(random_row, 5, seed=seed) for seed in (1, 2))
    assert read_all(one, NOWHERE) != read_all(two, NOWHERE)


def test_a_rate_lets_records_become_available() -> None:
    source = DataGeneratorSource(named_record, None, RateLimiterStrategy.per_second(10))
    run = SourceRun(source, NOWHERE, now=50_000)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert run.epoch() == 0
    run.now += 1500
    assert run.epoch() == 1
    assert len(run.rows) == 15
    run.restart()
    run.now += 500
    run.epoch()
    assert run.rows == [f"record {index}" for index in range(20)]
    assert not run.is_finished()


def test_a_rate_per_checkpoint_bounds_an_epoch() -> None:
    run = SourceRun(DataGeneratorSource(named_record, 10, RateLimiterStrategy.per_checkpoint(4)), NOWHERE)
    counts = []
    while not run.is_finished():
        run.epoch()
        counts.append(len(run.rows))
    assert counts == [4, 8, 10]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_is_above_nothing(rate: float) -> None:
    with pytest.raises(InvalidProgramError):
        RateLimiterStrategy.per_second(rate)


class RemembersWhatItMade(CheckpointedFunction):
    """A generator with state."""

    def __call__(self, number: int) -> int:
        return number

    def snapshot_state(self, context: Any) -> None:
        """Nothing."""

    def initialize_state(self, context: Any) -> None:
        """Nothing."""


def test_a_generator_has_no_state() -> None:
    with pytest.raises(InvalidProgramError, match=r"no state in checkpoints.*leave CheckpointedFunction out"):
        DataGeneratorSource(RemembersWhatItMade(), 3, None, Types.LONG())


def test_a_generator_is_refused_when_it_cannot_work() -> None:
    with pytest.raises(InvalidProgramError, match="either"):
        DataGeneratorSource()
    with pytest.raises(InvalidProgramError, match="below 0"):
        DataGeneratorSource(named_record, -1)
    with pytest.raises(InvalidTypeError, match="not String: the type of the records is the argument after it"):
        DataGeneratorSource(named_record, 10, Types.STRING())  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="type_info"):
        DataGeneratorSource(batch_generator=make_batch)


def wrong_length(indices: Any, rng: Any) -> dict[str, Any]:
    return {"value": [1, 2]}


def wrong_column(indices: Any, rng: Any) -> dict[str, Any]:
    return {"other": indices}


def wrong_type(indices: Any, rng: Any) -> dict[str, Any]:
    return {"value": ["x"] * len(indices)}


@pytest.mark.parametrize(
    ("function", "message"),
    [(wrong_length, "made 2 records"), (wrong_column, "no column 'value'"), (wrong_type, "do not fit")],
)
def test_a_batch_generator_has_to_keep_its_word(function: Any, message: str) -> None:
    source = DataGeneratorSource(batch_generator=function, count=5, type_info=Types.LONG())
    with pytest.raises(InvalidTypeError, match=message):
        read_all(source, NOWHERE)


@pytest.mark.parametrize("elements", [3, None])
def test_a_collection_can_be_iterated(elements: Any) -> None:
    with pytest.raises(InvalidTypeError, match=f"^from_collection takes an Iterable, not {elements}\n  at {__file__}"):
        CollectionSource(elements)
