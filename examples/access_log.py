"""An access log: the visits to a web site, its top pages, and how often requests fail.

    headrace run examples/access_log.py --output results

The log is out of order by up to a minute. With a bound of 60 seconds (the default) nothing is lost; with ``--bound 10``
results come sooner, and requests that come too late for them are set aside or counted.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace.common import Duration, Row, Types, WatermarkStrategy
from headrace.common.serialization import Encoder
from headrace.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import count
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from headrace.datastream.formats.json import JsonLinesEncoder
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import SlidingEventTimeWindows, Time, TimeWindow, TumblingEventTimeWindows

MINUTE = 60_000
SESSION_GAP = 30 * MINUTE
TOP = 5

COMBINED = re.compile(
    r'(?P<visitor>\S+) \S+ \S+ \[(?P<time>[^]]+)\] "(?P<method>[A-Z]+) (?P<target>\S+) [^"]*" (?P<status>\d{3}) \S+ '
    r'"[^"]*" "[^"]*"'
)
BAD_LINES = OutputTag("bad lines", Types.STRING())


@dataclass(slots=True)
class Request:
    """One line of the log; times are milliseconds since 1970."""

    visitor: str
    time: int
    page: str
    status: int


class Parse(ProcessFunction):
    """Makes requests of lines; what is no line of an access log goes to a side output."""

    def process_element(self, line: str, ctx: ProcessFunction.Context) -> Iterator[Request | tuple[OutputTag, str]]:
        found = COMBINED.fullmatch(line)
        if found is None:
            yield BAD_LINES, line
            return
        time = datetime.strptime(found["time"], "%d/%b/%Y:%H:%M:%S %z")
        page = found["target"].partition("?")[0]
        yield Request(found["visitor"], int(time.timestamp() * 1000), page, int(found["status"]))


# --- visits: state and timers ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Session:
    """One visit."""

    visitor: str
    start: int
    end: int
    requests: int


LATE_REQUESTS = OutputTag("late requests", Request)


class Sessions(KeyedProcessFunction):
    """Puts the requests of a visitor into sessions: half an hour of silence ends one.

    Requests wait until the watermark has passed them, so they are looked at in the order of event time however they
    came; those that come when it has passed them already go to a side output.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting", Types.LONG(), Types.LONG()))
        self.session = runtime_context.get_state(ValueStateDescriptor("session", Types.of(Session)))

    def process_element(
        self, request: Request, ctx: KeyedProcessFunction.Context
    ) -> Iterator[Session | tuple[OutputTag, Request]]:
        if request.time <= ctx.timer_service().current_watermark():
            yield LATE_REQUESTS, request
            return
        self.waiting.put(request.time, (self.waiting.get(request.time) or 0) + 1)
        ctx.timer_service().register_event_time_timer(request.time)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Session]:
        session = self.session.value()
        requests = self.waiting.get(timestamp)
        if requests:
            session = session or Session(ctx.get_current_key(), timestamp, timestamp, 0)
            session.end, session.requests = timestamp, session.requests + requests
            self.session.update(session)
            self.waiting.remove(timestamp)
            ctx.timer_service().register_event_time_timer(timestamp + SESSION_GAP)
        elif session is not None and timestamp == session.end + SESSION_GAP:
            yield session
            self.session.clear()


# --- top pages: a window, then a ranking of its results --------------------------------------------------------------


@dataclass(slots=True)
class TopPage:
    """One place in the ranking of a window."""

    window_start: int
    window_end: int
    rank: int
    page: str
    requests: int


class Ranking(KeyedProcessFunction):
    """Ranks the pages of one window when the results of all of them are there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        page_and_requests = Types.TUPLE([Types.STRING(), Types.LONG()])
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", page_and_requests))
        self.start = runtime_context.get_state(ValueStateDescriptor("start", Types.LONG()))

    def process_element(self, result: Row, ctx: KeyedProcessFunction.Context) -> None:
        self.pages.add((result.page, result.requests))
        self.start.update(result.window_start)
        ctx.timer_service().register_event_time_timer(result.window_end)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[TopPage]:
        ranked = sorted(self.pages.get(), key=lambda page: (-page[1], page[0]))
        for rank, (page, requests) in enumerate(ranked[:TOP], start=1):
            yield TopPage(self.start.value(), ctx.get_current_key(), rank, page, requests)
        self.pages.clear()
        self.start.clear()


# --- errors: functions over a window ---------------------------------------------------------------------------------


@dataclass(slots=True)
class ErrorRate:
    """The requests of ten seconds."""

    since: str
    requests: int
    errors: int
    rate: float


class CountErrors(AggregateFunction):
    """Requests, and those of them that failed."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, request: Request, counts: tuple[int, int]) -> tuple[int, int]:
        return counts[0] + 1, counts[1] + (request.status >= 400)

    def get_result(self, counts: tuple[int, int]) -> tuple[int, int]:
        return counts

    def merge(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]


class Rate(ProcessWindowFunction[tuple[int, int], ErrorRate, int, TimeWindow]):
    """Adds the time and the rate."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], counts: Iterable[tuple[int, int]]
    ) -> Iterator[ErrorRate]:
        since = datetime.fromtimestamp(context.window().start / 1000, UTC)
        for requests, errors in counts:
            yield ErrorRate(f"{since:%Y-%m-%d %H:%M:%S}", requests, errors, round(errors / requests, 4))


# --- the job ---------------------------------------------------------------------------------------------------------


def build(env: StreamExecutionEnvironment, log: Path, output: Path, bound: int) -> None:
    """Put the job together.

    Args:
        env: where the job will run.
        log: the access log, compressed or not, or a folder of them.
        output: the folder for results.
        bound: by how many seconds the log may be out of order.
    """
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), log).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "log").uid("log")
    parsed = lines.process(Parse(), output_type=Request).name("parse")
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(bound))
    requests = parsed.assign_timestamps_and_watermarks(event_time.with_timestamp_assigner("time")).uid("event-time")

    visits = requests.key_by("visitor").process(Sessions(), output_type=Session).name("sessions").uid("sessions")
    write(visits, output, "sessions")
    write(top_pages(requests), output, "top-pages")
    write(error_rates(requests), output, "error-rates")
    write(visits.get_side_output(LATE_REQUESTS), output, "late-requests")
    write(parsed.get_side_output(BAD_LINES), output, "bad-lines", Encoder.simple_string_encoder())


def top_pages(requests: DataStream) -> DataStream:
    """The pages that were asked for most, every quarter of an hour, over the hour before."""
    per_page = (
        requests.key_by("page")
        .window(SlidingEventTimeWindows.of(Time.hours(1), Time.minutes(15)))
        .aggregate(count().alias("requests"))
        .name("requests per page")
        .uid("requests-per-page")
    )
    return per_page.key_by("window_end").process(Ranking(), output_type=TopPage).name("top pages").uid("top-pages")


def error_rates(requests: DataStream) -> DataStream:
    """The share of requests that failed, every ten seconds."""
    return (
        requests.key_by(lambda request: 0, key_type=Types.INT())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(CountErrors(), window_function=Rate(), output_type=ErrorRate)
        .name("error rates")
        .uid("error-rates")
    )


def write(stream: DataStream, output: Path, name: str, encoder: Encoder | None = None) -> None:
    """Write a stream to files in a folder of its own, as JSON lines unless told otherwise."""
    sink = FileSink.for_row_format(output / name, encoder or JsonLinesEncoder())
    sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    stream.sink_to(sink.build()).name(f"{name} files").uid(f"{name}-files")


def main() -> None:
    """Run the job and say what it has written."""
    arguments = parse_arguments()
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, arguments.input, arguments.output, arguments.bound)
    counters = env.execute("access log").get_all_accumulator_results()

    for name in ("sessions", "top-pages", "error-rates", "late-requests", "bad-lines"):
        print(f"{counters.get(f'{name} files.numRecordsIn', 0):>8,}  {arguments.output / name}")
    print(f"{counters.get('numLateRecordsDropped', 0):>8,}  requests came too late for a window")


def parse_arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parent
    parser.add_argument("--input", type=Path, default=here / "data" / "apache_access.log.gz", help="the log")
    parser.add_argument("--output", type=Path, default=Path("access-log-results"), help="the folder for results")
    parser.add_argument("--bound", type=int, default=60, help="by how many seconds the log may be out of order")
    return parser.parse_args()


if __name__ == "__main__":
    main()
