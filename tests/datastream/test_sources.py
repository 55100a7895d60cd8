"""Where streams begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

from headrace.common import Configuration, Duration, Row, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import Encoder
from headrace.connectors.ranges import CollectionSource, NumberSequenceSource
from headrace.connectors.source import Source
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.text import TextLineFormat
from headrace.graph.specs import SourceSpec, TimestampsSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.datastream import StreamExecutionEnvironment
    from headrace.graph.stream_graph import StreamGraph

LINES = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data")
ASCENDING = WatermarkStrategy.for_monotonous_timestamps()
NONE = WatermarkStrategy.no_watermarks()
DEAD_LETTER = Types.ROW_NAMED(["where", "raw", "reason"], [Types.STRING(), Types.STRING(), Types.STRING()])


class RejectingSource(CollectionSource):
    """A source that could meet rows which it cannot read."""

    def __init__(self, tag: OutputTag | None) -> None:
        super().__init__([1])
        self.tag = tag

    @property
    def dead_letter(self) -> OutputTag | None:
        return self.tag


def test_collection_with_a_declared_type(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    stream = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    (node,) = graph
    assert isinstance(node.spec, SourceSpec)
    assert isinstance(node.spec.source, CollectionSource)
    assert node.name == stream.get_name() == "Collection Source"
    assert node.type_of(None) == stream.get_type() == Types.TUPLE([Types.STRING(), Types.INT()])
    assert node.call_site.file == __file__
    assert node.call_site.function == "test_collection_with_a_declared_type"
    assert stream.get_execution_environment() is env


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([1, 2], Types.LONG()),
        (["a"], Types.STRING()),
        ([("a", 1.5)], Types.TUPLE([Types.STRING(), Types.DOUBLE()])),
        ([1, "a"], Types.PICKLED_BYTE_ARRAY()),
        ([], Types.PICKLED_BYTE_ARRAY()),
    ],
)
def test_type_of_a_collection_is_found_out(env: StreamExecutionEnvironment, elements: list[Any], expected: Any) -> None:
    assert env.from_collection(elements).get_type() == expected


def test_type_of_a_collection_may_be_a_class(env: StreamExecutionEnvironment) -> None:
    assert env.from_collection([1], int).get_type() == Types.LONG()


def test_elements_have_to_fit_their_type(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidTypeError, match="'a'"):
        env.from_collection(["a"], Types.INT())


@pytest.mark.parametrize(
    ("collection", "message"),
    [
        ("abc", r"write \['abc'\]"),
        (b"abc", r"write \[b'abc'\]"),
        ({"a": 1}, "a dict gives its keys only"),
        (pa.table({"a": [1]}), "a Table gives its columns"),
        (pd.DataFrame({"a": [1]}), "a DataFrame gives its columns"),
    ],
    ids=["text", "bytes", "dict", "arrow", "pandas"],
)
def test_what_gives_no_records_is_no_collection(env: StreamExecutionEnvironment, collection: Any, message: str) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        env.from_collection(collection)


def test_a_builder_is_no_source(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidTypeError, match=r"from_source takes a Source, not .*: call its build\(\)"):
        env.from_source(LINES, WatermarkStrategy.no_watermarks(), "files")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (
            lambda env: FileSource.for_record_stream_format(StreamFormat.text_line_format, "a"),
            r"call it, text_line",
        ),
        (lambda env: FileSource.for_record_stream_format(TextLineFormat, "a"), r"make one, TextLineFormat\(\.\.\.\)"),
        (
            lambda env: FileSink.for_row_format("a", Encoder.simple_string_encoder),
            r"call it, simple_string",
        ),
        (
            lambda env: env.from_source(Source, WatermarkStrategy.no_watermarks(), "a"),
            r"extend it, and make one of the class\n",
        ),
        (lambda env: env.from_source(len, WatermarkStrategy.no_watermarks(), "a"), r"not <built-in function len>\n"),
        (lambda env: env.from_source(LINES.build, WatermarkStrategy.no_watermarks(), "a"), r"call it, build\(\)"),
        (lambda env: env.from_source(LINES.build(), WatermarkStrategy.no_watermarks, "a"), r"it, no_watermarks\(\)"),
        (lambda env: env.from_source(lambda: 0, WatermarkStrategy.no_watermarks(), "a"), r"not a lambda\n"),
    ],
)
def test_what_was_not_called(env: StreamExecutionEnvironment, mistake: Callable[..., Any], said: str) -> None:
    with pytest.raises(InvalidTypeError, match=said) as told:
        mistake(env)
    assert str(told.value).partition("\n  at ")[2].startswith(__file__)


def test_a_dataframe_of_another_library_says_how_to_make_one_of_spark(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidTypeError, match=r"not a pyarrow.*\n.*spark\.createDataFrame\(df\).*from_colle"):
        env.from_dataframe(pa.table({"a": [1]}))


def test_paths_come_after_the_format() -> None:
    with pytest.raises(InvalidTypeError, match="takes a format, and then the paths, not '/data' first"):
        FileSource.for_record_stream_format("/data", StreamFormat.text_line_format())  # type: ignore[arg-type]


def test_sequence(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    assert env.from_sequence(1, 10).get_type() == Types.LONG()
    (node,) = graph
    assert isinstance(node.spec, SourceSpec)
    assert isinstance(node.spec.source, NumberSequenceSource)


def test_source_without_watermarks_is_one_node(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    stream = env.from_source(NumberSequenceSource(1, 2), NONE.with_idleness(Duration.of_seconds(1)), "numbers")
    assert [node.name for node in graph] == ["numbers"]
    assert stream.get_type() == Types.LONG()


@pytest.mark.parametrize("strategy", [ASCENDING, NONE.with_timestamp_assigner(lambda value, _: value)])
def test_source_with_event_time(
    env: StreamExecutionEnvironment, graph: StreamGraph, strategy: WatermarkStrategy
) -> None:
    stream = env.from_source(NumberSequenceSource(1, 2), strategy, "numbers")
    stream.map(str)
    source, watermarks, mapped = graph
    assert isinstance(watermarks.spec, TimestampsSpec)
    assert watermarks.spec.strategy is strategy
    assert watermarks.name == "numbers Watermarks"
    assert watermarks.type_of(None) == Types.LONG()
    assert [edge.source for edge in watermarks.inputs] == [source.id]
    assert [edge.source for edge in mapped.inputs] == [watermarks.id]


def test_what_is_set_on_the_stream_of_a_source_is_set_on_the_source(
    env: StreamExecutionEnvironment, graph: StreamGraph
) -> None:
    stream = env.from_source(NumberSequenceSource(1, 2), ASCENDING, "numbers")
    named = stream.name("n").uid("u").set_parallelism(2).set_max_parallelism(8).set_description("text")
    source, watermarks = graph
    assert named.get_name() == "n"
    assert (source.name, source.uid, source.parallelism, source.max_parallelism) == ("n", "u", 2, 8)
    assert source.description == "text"
    assert (watermarks.name, watermarks.uid) == ("n Watermarks", "u-watermarks")
    assert (watermarks.parallelism, watermarks.max_parallelism, watermarks.description) == (2, 8, None)


def test_setting_a_source_without_watermarks(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    env.from_sequence(1, 2).uid("u").name("n")
    (node,) = graph
    assert (node.uid, node.name) == ("u", "n")


def test_declared_type_can_only_confirm_that_of_the_source(env: StreamExecutionEnvironment) -> None:
    source = NumberSequenceSource(1, 2)
    assert env.from_source(source, NONE, "numbers", Types.LONG()).get_type() == Types.LONG()
    with pytest.raises(InvalidTypeError, match="'numbers' produces Long, not String"):
        env.from_source(source, NONE, "numbers", Types.STRING())


def test_dead_letters(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    tag = OutputTag("bad")
    stream = env.from_source(RejectingSource(tag), ASCENDING, "numbers")
    assert graph[0].outputs.side_types == {"bad": DEAD_LETTER}
    rejected = stream.get_side_output(tag)
    assert rejected.get_type() == DEAD_LETTER
    rejected.print()
    (edge,) = graph[2].inputs
    assert (edge.source, edge.side_output) == (0, "bad")
    assert graph[0].outputs.side_types == {"bad": DEAD_LETTER}


@pytest.mark.parametrize(
    ("declared", "first"),
    [
        (Types.TUPLE([Types.STRING()] * 3), tuple),
        (tuple[str, str, str], tuple),
        (Types.ROW_NAMED(["place", "line", "why"], [str, str, str]), Row),
        (DEAD_LETTER, Row),
        (None, Row),
    ],
)
def test_dead_letters_are_what_their_tag_says(
    env: StreamExecutionEnvironment, tmp_path: Path, declared: Any, first: type
) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}\nrubbish\n')
    env.configure(Configuration().set_string("headrace.runtime", "local"))
    tag = OutputTag("bad", declared)
    source = FileSource.for_record_stream_format(JsonLinesFormat({"a": int}), tmp_path / "in.json").set_dead_letter(tag)
    rejected = env.from_source(source.build(), NONE, "lines").get_side_output(tag)
    assert rejected.get_type() == (DEAD_LETTER if declared is None else Types.of(declared))
    raw = rejected.map(lambda record: (type(record), record[1]))
    (found,) = rejected.execute_and_collect(limit=2)
    assert (type(found), found[0], found[1]) == (first, f"{tmp_path}/in.json:2", "rubbish")
    assert raw.execute_and_collect(limit=2) == [(first, "rubbish")]


def test_source_without_dead_letters_has_no_side_output(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(RejectingSource(None), ASCENDING, "numbers")
    with pytest.raises(InvalidProgramError, match="never writes to the side output 'bad'"):
        stream.get_side_output(OutputTag("bad"))


def test_dead_letters_have_a_type_of_their_own(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(RejectingSource(OutputTag("bad")), NONE, "numbers")
    with pytest.raises(InvalidTypeError, match="leave the type of the tag out"):
        stream.get_side_output(OutputTag("bad", Types.STRING()))
    assert stream.get_side_output(OutputTag("bad", DEAD_LETTER)).get_type() == DEAD_LETTER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], NONE, "n"), "from_source takes a Source"),
        ((NumberSequenceSource(1, 2), None, "n"), "expected a WatermarkStrategy"),
        ((NumberSequenceSource(1, 2), NONE, ""), "the name of an operator is a string"),
        (
            (CollectionSource([("a", 1)]), ASCENDING.with_timestamp_assigner("t"), "n"),
            "no field 't': its fields are 'f0', 'f1'",
        ),
        ((CollectionSource([("a", 1)]), ASCENDING.with_timestamp_assigner("f0"), "n"), "is of type String"),
        ((CollectionSource([object]), ASCENDING.with_timestamp_assigner("t"), "n"), "pickled objects"),
    ],
)
def test_wrong_arguments_are_refused(env: StreamExecutionEnvironment, arguments: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        env.from_source(*arguments)


def test_dataframes_are_not_there_yet(env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "headrace.runtime.spark.dataframe", None)
    with pytest.raises(UnsupportedOperationError, match="FileSource"):
        env.from_dataframe(object())
