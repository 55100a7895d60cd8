"""What environments, streams, sinks and results show of themselves in notebooks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from headrace.common import Configuration, JobExecutionResult, JobID, Time
from headrace.common.notebooks import framed
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

if TYPE_CHECKING:
    from headrace.datastream import DataStream
    from headrace.windowing.assigners import WindowAssigner

HOSTILE = "<script>alert('x')</script> & \"y\""


def shown(value: Any) -> str:
    """The HTML of a value, which is well-formed and harmless."""
    html = value._repr_html_()
    ElementTree.fromstring(html)
    assert "<script" not in html
    assert not re.search(r"\son\w+=|href=|https?://(?!www\.w3\.org/2000/svg)", html)
    return str(html)


def drawn(html: str) -> list[str]:
    """The texts in the picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", html)


def facts(html: str) -> dict[str, str]:
    root = ElementTree.fromstring(html)
    return {row[0].text or "": row[1].text or "" for row in root.iter("tr")}


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.set_parallelism(2).from_collection([("a", 1)]).name("pairs")


def test_an_environment_shows_the_plan_of_its_next_job(env: StreamExecutionEnvironment, pairs: DataStream) -> None:
    pairs.key_by(0).sum(1).print()
    html = shown(env)
    assert facts(html) == {"runtime": "spark", "parallelism": "2", "checkpoints": "in a temporary directory"}
    assert {"Stage 0", "Stage 1", "pairs", "HASH(0)", "Print to Std. Out"} <= set(drawn(html))


def test_an_environment_without_a_job(env: StreamExecutionEnvironment) -> None:
    html = shown(env)
    assert facts(html)["next job"] == "nothing was built since the last one"
    assert "<svg" not in html


def test_an_environment_whose_job_cannot_be_run(env: StreamExecutionEnvironment, pairs: DataStream) -> None:
    pairs.map(str).uid("twice").map(str).uid("twice").print()
    html = shown(env)
    assert facts(html)["next job"].startswith("cannot be run: ")
    assert "twice" in facts(html)["next job"]
    assert "pairs" in drawn(html)


def test_an_environment_whose_settings_are_wrong() -> None:
    configuration = Configuration.from_dict({"parallelism.default": "many"})
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert "many" in facts(shown(environment))["settings"]


def test_a_stream_shows_what_comes_before_it(pairs: DataStream) -> None:
    doubled = pairs.map(lambda pair: pair).name("doubled")
    pairs.map(str).name("beside it")
    html = shown(doubled)
    assert html.count("<strong>DataStream</strong>") == 1
    assert drawn(html) == ["2 operators", "pairs", "doubled"]
    assert re.findall(r'font-weight="700">([^<]*)<', html) == ["doubled"]


def test_a_keyed_stream_shows_its_key(pairs: DataStream) -> None:
    assert facts(shown(pairs.key_by(0))) == {"records": "TupleTypeInfo(String, Long)", "keyed by": "0: String"}


def test_windows_of_all_records_show_no_key(pairs: DataStream) -> None:
    told = facts(shown(pairs.window_all(TumblingEventTimeWindows.of(10))))
    assert told == {"records": "TupleTypeInfo(String, Long)", "windows": "TumblingEventTimeWindows(10 ms)"}


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        (TumblingEventTimeWindows.of(Time.minutes(1)), "TumblingEventTimeWindows(60000 ms)"),
        (SlidingEventTimeWindows.of(60, 20, 5), "SlidingEventTimeWindows(60 ms, 20 ms, 5 ms)"),
    ],
)
def test_a_windowed_stream_shows_its_windows(pairs: DataStream, windows: WindowAssigner, text: str) -> None:
    html = shown(pairs.key_by(0).window(windows))
    assert "<strong>WindowedStream</strong>" in html
    assert facts(html)["windows"] == text


def test_a_sink_shows_what_leads_to_it(pairs: DataStream) -> None:
    html = shown(pairs.union(pairs.map(lambda pair: pair)).print().name("out"))
    assert facts(html) == {"sink": "PrintSink"}
    assert re.findall(r'font-weight="700">([^<]*)<', html) == ["out"]


def test_names_of_the_program_are_text(pairs: DataStream) -> None:
    html = shown(pairs.map(str).name(HOSTILE).uid(HOSTILE))
    assert "&lt;script&gt;" in html


def test_a_graph_that_is_too_large_for_a_picture_is_text(pairs: DataStream) -> None:
    stream = pairs
    for _ in range(200):
        stream = stream.map(str)
    html = shown(stream)
    assert "<svg" not in html
    assert html.count("Map") == 200


def test_a_result_shows_its_counters() -> None:
    result = JobExecutionResult(JobID(), 1234, {"z": 2, "a": 1})
    found = facts(shown(result))
    assert found == {"job": str(result.job_id), "ran for": "1,234 ms", "a": "1", "z": "2"}
    assert list(found)[2:] == ["a", "z"]


def test_clients_and_collected_records_show_their_job() -> None:
    configuration = Configuration.from_dict({"headrace.runtime": "local"})
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    with environment.from_sequence(1, 3).execute_and_collect(HOSTILE) as records:
        assert list(records) == [1, 2, 3]
        client = records.get_job_client()
        client.get_job_execution_result().result()
        found = facts(shown(client))
        assert (found["name"], found["status"], found["epoch"]) == (HOSTILE, "FINISHED", "1")
        assert found["job"] == str(client.get_job_id())
        assert repr(client) == f"JobClient({HOSTILE!r}, FINISHED)"
        html = shown(records)
        assert "<strong>CloseableIterator</strong>" in html
        assert facts(html) == found


def test_facts_are_text_whatever_they_are() -> None:
    html = framed(HOSTILE, {HOSTILE: HOSTILE})
    root = ElementTree.fromstring(html)
    assert root.findtext("strong") == HOSTILE
    assert facts(html) == {HOSTILE: HOSTILE}
