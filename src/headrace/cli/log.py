"""``headrace log``: the embedded log from a shell. What a command needs is imported when it runs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.output import new_table, output
from headrace.cli.settings import job_settings, pairs_of
from headrace.common import wording
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.messages import TopicPartition

if TYPE_CHECKING:
    from headrace.log.consumer import Consumer
    from headrace.log.log import Log
    from headrace.log.records import ConsumerRecord
    from headrace.log.transactions import OpenTransaction

log_app = typer.Typer(help="Use a log of partitioned topics that lies in a folder.", no_args_is_help=True)

Location = Annotated[str, typer.Argument(metavar="LOG", help="The folder of the log, or its URI on an object store.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
OptionalTopic = Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic; all if left out.")]
Definitions = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting, of the storage say.", show_default=False)
]
TopicSettings = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="A setting of the topic by Kafka's name: retention.ms=7d, say."),
]


RecordFormat = Literal["text", "json"]
"""The forms in which records are shown."""


@log_app.command()
def create(
    location: Location,
    topic: OptionalTopic = None,
    partitions: Annotated[int, typer.Option("-p", "--partitions", min=1, help="How many the topic has.")] = 1,
    config: TopicSettings = None,
    define: Definitions = None,
) -> None:
    """Make a log, unless it is there, and a topic in it."""
    log = _open(location, define, create=True)
    if topic is not None:
        log.create_topic(topic, partitions, pairs_of(config))


@log_app.command()
def append(
    location: Location,
    topic: Topic,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", exists=True, dir_okay=False, help="The standard input if left out."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--key-separator", metavar="TEXT", help="What stands between key and value of a line.")
    ] = None,
    define: Definitions = None,
) -> None:
    """Append lines, each a record."""
    from headrace.log.producer import Producer

    log = _open(location, define)
    log.partitions_of(topic)  # an error where there is none, also when there are no lines
    with contextlib.ExitStack() as stack:
        source = sys.stdin.buffer if file is None else stack.enter_context(file.open("rb"))
        producer = stack.enter_context(Producer(log))
        count = 0
        for key, value in _lines(source, separator):
            producer.send(topic, value, key)
            count += 1
        producer.flush()
    Console(stderr=True).print(f"{wording.count(count, 'record')} appended to {topic}")


@log_app.command()
def tail(
    location: Location,
    topic: Topic,
    count: Annotated[int, typer.Option("-n", "--records", min=0, help="How many of the last records to show.")] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as records come.")] = False,
    beginning: Annotated[bool, typer.Option("--from-beginning", help="Show all there are.")] = False,
    form: Annotated[RecordFormat, typer.Option("--format", help="Values alone, or all of a record.")] = "text",
    define: Definitions = None,
) -> None:
    """Show the last records of a topic, those of its partitions by their timestamps."""
    from headrace.log.consumer import Consumer

    log = _open(location, define)
    write = _write_json if form == "json" else _write_values
    consumer = Consumer(log, auto_offset_reset="earliest")
    ends = log.end_offsets(log.partitions_of(topic))
    consumer.assign(ends)
    if not beginning:
        for partition, start in log.beginning_offsets(ends).items():
            consumer.seek(partition, max(start, ends[partition] - count))
    before = _before(consumer, ends)
    write(before if beginning else before[max(len(before) - count, 0) :])
    while follow:
        write(consumer.poll(timeout=3600, max_records=10_000))


@log_app.command()
def describe(location: Location, topic: OptionalTopic = None, define: Definitions = None) -> None:
    """Show topics, their settings and partitions."""
    log = _open(location, define)
    console = output()
    names = [topic] if topic is not None else sorted(log.topics())
    if not names:
        console.print(Text(f"{log} has no topics"), soft_wrap=True)
    for name in names:
        console.print(_partitions_table(log, name))


@log_app.command()
def groups(
    location: Location,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group; all if left out.")] = None,
    define: Definitions = None,
) -> None:
    """Show consumer groups: what they read, and their lag."""
    log = _open(location, define)
    known = log.groups()
    if group is not None and group not in known:
        raise ConfigurationError(f"{log} has no group {group!r}; there is {', '.join(sorted(known)) or 'none at all'}")
    table = new_table("group", "partition", "offset", "end", "lag", "member")
    for name in [group] if group is not None else sorted(known):
        for row in _lags(log, name):
            table.add_row(*map(Text, row))
    output().print(table)


@log_app.command()
def transactions(location: Location, define: Definitions = None) -> None:
    """Show what waits for its commit: of which job and sink, or of which producer, since when, and how large it is."""
    from headrace.log.transactions import open_transactions

    log = _open(location, define)
    waiting = open_transactions(log.journal)
    if waiting:
        output().print(_transactions_table(log, waiting))
    else:
        output().print("nothing waits for its commit")


@log_app.command()
def abandon(
    location: Location,
    name: Annotated[str, typer.Argument(metavar="JOB|ID", help="The job, or the transactional id of a producer.")],
    force: Annotated[bool, typer.Option("--force", help="Do it: it will never go on.")] = False,
    define: Definitions = None,
) -> None:
    """Remove what waits for the commit of a job or producer that is given up for good: it is never committed."""
    from headrace.log.transactions import abandon as abandon_open
    from headrace.log.transactions import open_transactions

    log = _open(location, define)
    waiting = [each for each in open_transactions(log.journal) if each.producer and _owner(each.producer)[0] == name]
    if not waiting:
        raise ConfigurationError(
            f"{log}: nothing waits for a commit of {name!r}; `headrace log transactions` shows what"
        )
    output().print(_transactions_table(log, waiting))
    if not force:
        raise ConfigurationError(
            f"{name} may still commit this when it goes on; once it is abandoned, it is lost, and a job cannot write "
            "to this log any more. `headrace checkpoints DIR` shows what the checkpoints of a job have yet to commit. "
            "Add --force if it is given up for good"
        )
    removed = sum(abandon_open(log.journal, producer) for producer in sorted({each.producer or "" for each in waiting}))
    output().print(f"{wording.count(removed, 'file')} removed")


@log_app.command()
def compact(
    location: Location,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="All if left out.")] = None,
    define: Definitions = None,
) -> None:
    """Delete by time and size, compact and merge all there is, and remove files that are not needed."""
    log = _open(location, define)
    for topic in topics or ():
        log.partitions_of(topic)  # an error where there is none
    done = log.maintain(topics or None, fully=True)
    output().print(
        f"{wording.number(done.deleted)} records deleted, {wording.number(done.superseded)} superseded, "
        f"{wording.number(done.merged)} segments merged, {wording.number(done.removed)} files removed"
    )


@log_app.command()
def export(
    location: Location,
    topic: Topic,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The Parquet file; one that exists is replaced.")],
    define: Definitions = None,
) -> None:
    """Write all records of a topic to a Parquet file."""
    import pyarrow.parquet as pq

    from headrace.common import durable

    log = _open(location, define)
    if file.is_dir():
        raise ConfigurationError(f"{file} is a folder: say what the file in it is to be called")
    if not file.parent.is_dir():
        raise ConfigurationError(f"{file} cannot be written: there is no folder {file.parent}; make it first")
    reader = log.read(topic)
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        with pq.ParquetWriter(unfinished, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
        durable.move(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def _open(location: str, definitions: list[str] | None, *, create: bool = False) -> Log:
    """The log at a location, a path or a URI; ``create`` makes one where there is none."""
    from headrace.log.log import Log

    configuration = Configuration.from_dict(job_settings(definitions))
    return Log.open(location, create=create, options=configuration.storage_options())


def _lines(source: BinaryIO, separator: str | None) -> Iterator[tuple[bytes | None, bytes]]:
    between = separator.encode() if separator else None
    for line in source:
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if between is None:
            yield None, text
            continue
        key, found, value = text.partition(between)
        yield (key, value) if found else (None, text)


def _before(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> list[ConsumerRecord]:
    """The records before some offsets, by their timestamps."""
    found: list[ConsumerRecord] = []
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        found += consumer.poll(max_records=100_000)
    return sorted(found, key=lambda record: (record.timestamp, record.partition, record.offset))


def _write_values(records: Iterable[ConsumerRecord]) -> None:
    sys.stdout.writelines(f"{_text(record.value)}\n" for record in records)
    sys.stdout.flush()


def _write_json(records: Iterable[ConsumerRecord]) -> None:
    for record in records:
        headers = [[key, _text(value)] for key, value in record.headers]
        shown = {"key": _text(record.key), "value": _text(record.value), "headers": headers}
        sys.stdout.write(f"{json.dumps({**record._asdict(), **shown})}\n")
    sys.stdout.flush()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def _partitions_table(log: Log, topic: str) -> Table:
    with log.journal.lock:
        described = log.journal.state().topic(topic)
        settings = ", ".join(f"{key}={value}" for key, value in described.config.settings().items())
        table = new_table("partition", "from", "to", "records", "segments", "size")
        table.title = Text.assemble((topic, "bold"), f" ({settings})")
        table.title_justify = "left"
        for number, partition in enumerate(described.partitions):
            table.add_row(
                str(number),
                str(partition.start_offset),
                str(partition.end_offset),
                wording.number(sum(segment.rows for segment in partition.segments)),
                str(len(partition.segments)),
                wording.size(partition.bytes),
            )
    return table


def _transactions_table(log: Log, waiting: Iterable[OpenTransaction]) -> Table:
    table = new_table("job or transactional id", "sink", "epoch", "waits for", "files", "size")
    now = log.journal.clock()
    for each in waiting:
        owner, sink = _owner(each.producer) if each.producer else ("unknown to this log", "")
        table.add_row(
            Text(owner),
            Text(sink),
            str(each.sequence) if each.outlasts_producer else "",
            "" if each.since is None else wording.span((now - each.since) / 1000),
            wording.number(len(each.files)),
            wording.size(each.size),
        )
    return table


def _owner(producer: str) -> tuple[str, str]:
    """The job and its sink, or the transactional id alone."""
    from headrace.connectors.log.sink import job_and_sink

    return job_and_sink(producer) or (producer, "")


def _lags(log: Log, name: str) -> Iterator[tuple[str, ...]]:
    group = log.groups()[name]
    owners = {each: member_id for member_id, member in group.members.items() for each in member.owned}
    counts = log.topics()
    for partition in sorted({*group.offsets, *owners}):
        committed = group.offsets.get(partition)
        is_there = partition.partition < counts.get(partition.topic, 0)
        end = log.end_offsets([partition])[partition] if is_there else None
        lag = "" if committed is None or end is None else wording.number(end - committed)
        yield (
            name,
            str(partition),
            "" if committed is None else str(committed),
            "" if end is None else str(end),
            lag,
            owners.get(partition, ""),
        )
