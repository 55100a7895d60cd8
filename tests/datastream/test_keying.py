"""``key_by``: what the key is, and of which type."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import cloudpickle
import pytest

from headrace.common import Row, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.datastream import CheckpointedFunction, KeySelector, Partitioner, StreamExecutionEnvironment
from headrace.datastream.streams.keying import key_selection
from headrace.graph.partitioning import HASH

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.stream_graph import StreamGraph

ROW = Types.ROW_NAMED(["card", "amount", "tags"], [Types.STRING(), Types.LONG(), Types.LIST(Types.STRING())])
PICKLED = Types.PICKLED_BYTE_ARRAY()


@dataclass(frozen=True)
class Payment:
    card: str
    amount: int


class Pair(NamedTuple):
    card: str
    amount: int


class Doc(TypedDict):
    card: str
    amount: int


class ByCard(KeySelector):
    def get_key(self, value: Any) -> str:
        return str(value["card"])


class ByField(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value["card"]


class Opened(KeySelector):
    def open(self, runtime_context: Any) -> None:
        pass

    def get_key(self, value: Any) -> Any:
        return value


def hinted(value: Any) -> int:
    return len(value.card)


def by_class(value: Payment) -> Payment:
    return Payment(value.card.upper(), 0)


@pytest.mark.parametrize(
    ("selector", "fields", "key_type"),
    [
        ("card", ("card",), Types.STRING()),
        (1, (1,), Types.LONG()),
        (-2, (-2,), Types.LONG()),
        (lambda r: r.card, ("card",), Types.STRING()),
        (lambda r: r["amount"], ("amount",), Types.LONG()),
        (lambda r: r[0], (0,), Types.STRING()),
        (lambda r: (r.card, r.amount), ("card", "amount"), Types.TUPLE([Types.STRING(), Types.LONG()])),
        (itemgetter("card"), ("card",), Types.STRING()),
        (attrgetter("card", "amount"), ("card", "amount"), Types.TUPLE([Types.STRING(), Types.LONG()])),
        (ByField(), ("card",), Types.STRING()),
        (ByCard(), None, Types.STRING()),
        (hinted, None, Types.LONG()),
        (lambda r: r.card.upper(), None, PICKLED),
        (lambda r: r.unknown, None, PICKLED),
        (lambda r: r[7], None, PICKLED),
        (lambda r: 0, None, PICKLED),
        (by_class, None, Types.of(Payment)),
    ],
)
def test_keys_of_rows(selector: Any, fields: Any, key_type: TypeInformation) -> None:
    found = key_selection(ROW, selector, None)
    assert (found.fields, found.codec.type) == (fields, key_type)
    assert found.is_single == (fields is None or len(fields) == 1)


@pytest.mark.parametrize(
    ("selector", "declared", "fields"),
    [
        ("amount", Types.LONG(), ("amount",)),
        ("amount", int, ("amount",)),
        ("amount", Types.INT(), None),
        (lambda r: r.amount, Types.INT(), None),
        (lambda r: r.card.upper(), Types.STRING(), None),
    ],
)
def test_declared_key_type_wins(selector: Any, declared: Any, fields: Any) -> None:
    found = key_selection(ROW, selector, declared)
    assert found.codec.type == Types.of(declared)
    assert found.fields == fields


@pytest.mark.parametrize(
    ("record", "record_type"),
    [
        (Row(card="c", amount=3), Types.ROW_NAMED(["card", "amount"], [Types.STRING(), Types.LONG()])),
        (Payment("c", 3), Types.of(Payment)),
        (Pair("c", 3), Types.of(Pair)),
        ({"card": "c", "amount": 3}, Types.of(Doc)),
    ],
)
@pytest.mark.parametrize("selector", ["amount", 1, -1])
def test_fields_are_taken_from_records_of_any_class(record: Any, record_type: TypeInformation, selector: Any) -> None:
    found = key_selection(record_type, selector, None)
    assert found.selector(record) == 3
    assert cloudpickle.loads(cloudpickle.dumps(found.selector))(record) == 3


@pytest.mark.parametrize(
    ("record", "selector"), [({"a": 3}, "a"), ((3,), 0), (Pair("c", 3), "amount"), (Payment("c", 3), "amount")]
)
def test_fields_of_records_without_a_type(record: Any, selector: Any) -> None:
    found = key_selection(PICKLED, selector, None)
    assert (found.fields, found.codec.type, found.selector(record)) == (None, PICKLED, 3)


def test_selector_of_plain_values_is_left_alone() -> None:
    # Of a string, x[0] is no field but the first character.
    found = key_selection(Types.STRING(), lambda x: x[0], None)
    assert found.fields is None
    assert found.selector("abc") == "a"


def test_positions_in_dicts_are_no_fields() -> None:
    assert key_selection(Types.of(Doc), lambda d: d[0], None).fields is None


def test_key_selector_is_called() -> None:
    assert key_selection(ROW, ByCard(), None).selector({"card": 5}) == "5"


@pytest.mark.parametrize(
    ("record_type", "selector", "message"),
    [
        (ROW, "carte", "no field 'carte': its fields are 'card', 'amount', 'tags'"),
        (ROW, 3, "no field 3"),
        (Types.LONG(), "card", r"records of type Long have no fields: lambda record: record is the record itself"),
        (ROW, "tags", "cannot be keys"),
        (ROW, True, "expected a KeySelector or a function, got True"),
        (ROW, ["a", "b"], r"several fields one by one: key_by\('a', 'b'\), not \['a', 'b'\]"),
        (ROW, ByCard, r"write ByCard\(\)"),
    ],
)
def test_what_cannot_be_a_key(record_type: TypeInformation, selector: Any, message: str) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        key_selection(record_type, selector, None)


def test_key_selectors_are_not_opened() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"Opened\.open\(\) would never be called"):
        key_selection(ROW, Opened(), None)


class OpenedPartitioner(Partitioner):
    def open(self, runtime_context: Any) -> None: ...

    def partition(self, key: Any, num_partitions: int) -> int:
        return 0


def test_partitioners_are_not_opened(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(
        UnsupportedOperationError, match=rf"open\(\) would never be called: a partitioner(.|\n)*{__file__}"
    ):
        env.from_collection([("a", 1)]).partition_custom(OpenedPartitioner(), 0)


class Stateful(CheckpointedFunction):
    def initialize_state(self, context: Any) -> None: ...

    def snapshot_state(self, context: Any) -> None: ...


class StatefulSelector(KeySelector, Stateful):
    def get_key(self, value: Any) -> Any:
        return value


class StatefulPartitioner(Partitioner, Stateful):
    def partition(self, key: Any, num_partitions: int) -> int:
        return 0


class StatefulAssigner(TimestampAssigner, Stateful):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("use", "role"),
    [
        (lambda stream: stream.key_by(StatefulSelector()), "key selector"),
        (lambda stream: stream.partition_custom(lambda key, number: 0, StatefulSelector()), "key selector"),
        (lambda stream: stream.partition_custom(StatefulPartitioner(), 0), "partitioner"),
        (
            lambda stream: stream.assign_timestamps_and_watermarks(
                WatermarkStrategy.no_watermarks().with_timestamp_assigner(StatefulAssigner())
            ),
            "timestamp assigner",
        ),
    ],
    ids=["key_by", "key of a partitioner", "partitioner", "timestamp assigner"],
)
def test_what_belongs_to_no_operator_keeps_no_state(
    env: StreamExecutionEnvironment, use: Callable[[Any], Any], role: str
) -> None:
    """Nobody would call its methods, as nobody does in Flink."""
    stream = env.from_collection([("a", 1)])
    with pytest.raises(
        InvalidProgramError,
        match=rf"initialize_state\(\) would never be called: a {role}(.|\n)*with a map\(\)(.|\n)*{__file__}",
    ):
        use(stream)


def test_keyed_stream(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    rows = env.from_collection([("a", 1)])
    keyed = rows.key_by(0)
    assert len(graph) == 1
    assert keyed.get_key_type() == Types.STRING()
    assert keyed.get_type() == rows.get_type()
    again = keyed.key_by(1)
    assert again.get_key_type() == Types.LONG()
    again.print()
    (edge,) = graph[1].inputs
    assert edge.partitioning == HASH
    assert edge.key is not None
    assert edge.key.fields == (1,)
    assert edge.key.call_site.function == "test_keyed_stream"


def test_key_of_a_union_and_of_a_side_output_keeps_the_edges(
    env: StreamExecutionEnvironment, graph: StreamGraph
) -> None:
    one = env.from_sequence(1, 2)
    one.union(env.from_sequence(3, 4)).key_by(lambda x: x).print()
    assert [edge.source for edge in graph[2].inputs] == [0, 1]
    assert all(edge.partitioning == HASH and edge.key is not None for edge in graph[2].inputs)
