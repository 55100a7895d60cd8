"""PyFlink's own examples, with no line changed but their imports, print what they print there."""

from __future__ import annotations

import json
import re
import runpy
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.run import run_script
from headrace.client.running import submission_defaults

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster
    from headrace.datastream.connectors.kafka import KafkaSource

PROGRAMS = Path(__file__).parent / "programs"

_WITHOUT_EFFECT = "it is Flink's, and headrace's connectors need no jars|only consumers use it"

Run = Callable[..., list[str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a program on the local runtime; gives the lines that it prints, without the numbers of subtasks."""

    def run(name: str | Path, *arguments: object) -> list[str]:
        with submission_defaults({"headrace.runtime": "local"}):
            run_script(PROGRAMS / f"{name}.py", list(map(str, arguments)))
        return [re.sub(r"^\d+> ", "", line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def run_with_kafka(run: Run, kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """As ``run``, of programs that read Kafka: at the place of this one, and up to what is there."""
    from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSourceBuilder

    build = KafkaSourceBuilder.build

    def build_bounded(builder: KafkaSourceBuilder[Any]) -> KafkaSource[Any]:
        return build(builder.set_bounded(KafkaOffsetsInitializer.latest()))

    def run_there(name: str) -> list[str]:
        text = (PROGRAMS / f"{name}.py").read_text()
        (tmp_path / f"{name}.py").write_text(text.replace("localhost:9092", kafka.bootstrap_servers))
        with pytest.warns(UserWarning, match=_WITHOUT_EFFECT) if "add_jars" in text else nullcontext():
            return run(tmp_path / name)

    monkeypatch.setattr(KafkaSourceBuilder, "build", build_bounded)
    return run_there


def test_basic_operations(run: Run) -> None:
    mapped = [
        """(1, '{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}')""",
        """(2, '{"name": "hello", "tel": 136, "addr": {"country": "China", "city": "Shanghai"}}')""",
        """(3, '{"name": "world", "tel": 125, "addr": {"country": "USA", "city": "NewYork"}}')""",
        """(4, '{"name": "PyFlink", "tel": 33, "addr": {"country": "China", "city": "Hangzhou"}}')""",
    ]
    sums = ["('Germany', 123)", "('China', 135)", "('USA', 124)", "('China', 167)"]
    assert run("basic_operations") == [*mapped, mapped[0], *sums]


def test_process_json_data(run: Run) -> None:
    assert sorted(run("process_json_data")) == [
        "(2, {'name': 'hello', 'tel': 136, 'addr': {'country': 'China', 'city': 'Shanghai'}})",
        "(4, {'name': 'PyFlink', 'tel': 33, 'addr': {'country': 'China', 'city': 'Hangzhou'}})",
    ]


@pytest.mark.filterwarnings("ignore:disable_cleanup_in_background")
def test_state_access(run: Run) -> None:
    assert _sums(run("state_access")) == {
        "Alice": [110.1, 130.1, 143.2, 163.3],
        "Bob": [30.2, 83.3, 86.4, 102.5],
    }


@pytest.mark.filterwarnings("ignore:disable_cleanup_in_background")
def test_event_time_timer(run: Run) -> None:
    """PyFlink shows the last sum each time: its watermark does not move before all records are read."""
    assert _sums(run("event_time_timer")) == {
        "Alice": [143.2, 163.3, 163.3, 163.3],
        "Bob": [102.5, 102.5, 102.5, 102.5],
    }


def test_word_count(run: Run) -> None:
    lines = runpy.run_path(str(PROGRAMS / "word_count.py"))["word_count_data"]
    words = Counter(word for line in lines for word in line.split())
    first, second, third, *counts = run("word_count")
    assert [first, second, third] == [
        "Executing word_count example with default input data set.",
        "Use --input to specify file input.",
        "Printing result to stdout. Use --output to specify output path.",
    ]
    assert sorted(counts) == sorted(f"({word},{count})" for word, count in words.items())


@pytest.fixture
def run_with_rows(run: Run, tmp_path: Path) -> Callable[..., list[str]]:
    """As ``run``, of programs whose rows are generated for ever: so many of them, at once."""

    def run_there(name: str, number: int) -> list[str]:
        text = (PROGRAMS / f"{name}.py").read_text()
        changed = re.sub(r"'rows-per-second', '\d+'", f"'number-of-rows', '{number}'", text)
        (tmp_path / f"{name}.py").write_text(changed)
        return run(tmp_path / name)[1:]

    return run_there


def test_words_of_a_table_are_counted(run_with_rows: Callable[..., list[str]]) -> None:
    counts = [re.fullmatch(r"\((\w+),(\d+)\)", line) for line in run_with_rows("streaming_word_count", 50)]
    assert sorted(int(found[2]) for found in counts if found) == sorted(
        number for total in Counter(found[1] for found in counts if found).values() for number in range(1, total + 1)
    )
    assert len(counts) == 50


def test_rows_of_a_table_are_sent_to_a_model(run_with_rows: Callable[..., list[str]]) -> None:
    lines = run_with_rows("remote_model_inference", 3)
    assert [json.loads(line)["analysis_result"] for line in lines] == ["positive"] * 3


def test_word_count_of_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("to be or\nnot to be\n")
    assert run("word_count", "--input", tmp_path / "in.txt", "--output", tmp_path / "out") == []
    (file,) = (tmp_path / "out").glob("*/prefix*.ext")
    assert sorted(file.read_text().splitlines()) == ["(be,2)", "(not,1)", "(or,1)", "(to,2)"]


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("tumbling_time_window", ["(hi,0,5,4)", "(hi,5,10,3)", "(hi,15,20,1)"]),
        (
            "sliding_time_window",
            [
                *("(hi,-2,3,2)", "(hi,0,5,4)", "(hi,2,7,4)", "(hi,4,9,3)", "(hi,6,11,2)", "(hi,8,13,2)"),
                *("(hi,12,17,1)", "(hi,14,19,1)"),
            ],
        ),
        ("tumbling_count_window", ["(hi,4)", "(hello,6)", "(hello,12)"]),
        ("session_with_gap_window", ["(hi,1,14,6)", "(hi,15,20,1)"]),
        ("session_with_dynamic_gap_window", ["(hi,1,30,7)"]),
    ],
)
def test_windows(run: Run, tmp_path: Path, name: str, windows: list[str]) -> None:
    assert run(name) == ["Printing result to stdout. Use --output to specify output path.", *windows]
    assert run(name, "--output", tmp_path / "out") == []
    (file,) = (tmp_path / "out").glob("*/prefix*.ext")
    assert file.read_text().splitlines() == windows


_WORDS = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello"), (6, "hello")]
_COUNTRIES = [(1, "USA"), (2, "Canada"), (3, "Germany")]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "records"),
    [
        *((f"kafka_{form}_format", [f"+I[{key},{text}]" for key, text in _WORDS]) for form in ("avro", "csv", "json")),
        ("kafka_bytearray_format", [json.dumps({"id": key, "country": text}) for key, text in _COUNTRIES]),
    ],
)
def test_kafka_formats(run_with_kafka: Run, name: str, records: list[str]) -> None:
    """What is read is what was there when the job began: in PyFlink the second job goes on for ever."""
    told = ["start writing data to kafka", "start reading data from kafka"]
    assert Counter(run_with_kafka(name)) == Counter([*told, *records])


@pytest.mark.integration
def test_kafka_keys_and_values_from_fields(run_with_kafka: Run, kafka: KafkaCluster) -> None:
    from tests.connectors.kafka.topics import Topic

    lines = run_with_kafka("kafka_row_field_extractor_example")
    assert sum(line.startswith("Sending: User=user-001") for line in lines) == 2
    topic = Topic(kafka.bootstrap_servers)
    topic.name = "row-extractor-example"
    assert sorted((each.key(), json.loads(each.value())["type"]) for each in topic.messages()) == [
        *((b"user-001", "add_to_cart"), (b"user-001", "purchase"), (b"user-002", "view"), (b"user-003", "purchase")),
    ]


def test_only_the_imports_were_changed() -> None:
    for program in PROGRAMS.glob("*.py"):
        text = program.read_text()
        assert text.startswith("####")
        assert f"/{program.name}. Changed: the imports name headrace." in text
        assert text.count("headrace") == len(re.findall("(?m)^from headrace", text)) + 1
        assert not re.search(r"(?m)^(from|import) pyflink", text)


def _sums(lines: list[str]) -> dict[str, list[float]]:
    """What each name has got to, in tenths: sums of single precision are not exact."""
    found: dict[str, list[float]] = {}
    for line in lines:
        name, value = re.fullmatch(r"\('(\w+)', ([\d.]+)\)", line).groups()  # type: ignore[union-attr]
        found.setdefault(name, []).append(round(float(value), 1))
    return found
