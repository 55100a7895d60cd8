"""What ``headrace log`` does."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.output import FAILED, INTERRUPTED, NOT_UNDERSTOOD, OK, new_table, output, report
from headrace.cli.settings import job_settings
from headrace.client import wording
from headrace.client.running import PIPE_CLOSED
from headrace.common import durable
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.common.messages import TopicPartition
from headrace.connectors.log.sink import job_and_sink
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import ConsumerRecord
from headrace.log.transactions import OpenTransaction, open_transactions
from headrace.log.transactions import abandon as abandon_open


def telling(command: Callable[[], None]) -> int:
    """Run a command, and say why it failed.

    Returns:
        The exit code.
    """
    errors = Console(stderr=True)
    try:
        command()
    except ConfigurationError as error:
        report(error, errors)
        return NOT_UNDERSTOOD
    except BrokenPipeError:  # as after ``| head``
        sys.stdout = None
        return PIPE_CLOSED
    except HeadraceError as error:
        return report(error, errors)
    except OSError as error:
        errors.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


def open_log(location: str, definitions: list[str] | None, *, create: bool = False) -> Log:
    """The log at a location.

    Args:
        location: a path or a URI.
        definitions: ``key=value`` of each ``-D``.
        create: whether to make one where there is none.
    """
    configuration = Configuration.from_dict(job_settings(definitions or []))
    return Log.open(location, create=create, options=configuration.storage_options())


def create(log: Log, topic: str | None, partitions: int, config: list[str] | None) -> None:
    """Make a topic, if one is named."""
    if topic is not None:
        log.create_topic(topic, partitions, _pairs(config))


def append(log: Log, topic: str, file: Path | None, separator: str | None) -> None:
    """Append lines of a file, or of the standard input."""
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


def tail(log: Log, topic: str, *, count: int | None, follow: bool, as_json: bool) -> None:
    """Print the last records, all if there is no count, and those that come."""
    write = _write_json if as_json else _write_values
    consumer = Consumer(log, auto_offset_reset="earliest")
    ends = log.end_offsets(log.partitions_of(topic))
    consumer.assign(ends)
    if count is not None:
        for partition, start in log.beginning_offsets(ends).items():
            consumer.seek(partition, max(start, ends[partition] - count))
    before = _before(consumer, ends)
    write(before if count is None else before[max(len(before) - count, 0) :])
    while follow:
        write(consumer.poll(timeout=3600, max_records=10_000))


def describe(log: Log, topic: str | None) -> None:
    """Print topics, their settings and partitions."""
    console = output()
    names = [topic] if topic is not None else sorted(log.topics())
    if not names:
        console.print(Text(f"{log} has no topics"), soft_wrap=True)
    for name in names:
        console.print(_partitions_table(log, name))


def groups(log: Log, group: str | None) -> None:
    """Print who reads what in groups, and how far behind."""
    known = log.groups()
    if group is not None and group not in known:
        raise ConfigurationError(f"{log} has no group {group!r}; there is {', '.join(sorted(known)) or 'none at all'}")
    table = new_table("group", "partition", "offset", "end", "lag", "member")
    for name in [group] if group is not None else sorted(known):
        for row in _lags(log, name):
            table.add_row(*map(Text, row))
    output().print(table)


def transactions(log: Log) -> None:
    """Print what waits for its commit."""
    waiting = open_transactions(log.journal)
    if waiting:
        output().print(_transactions_table(log, waiting))
    else:
        output().print("nothing waits for its commit")


def abandon(log: Log, name: str, *, force: bool) -> None:
    """Have nobody commit what waits for a job or producer, and remove it."""
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


def compact(log: Log, topics: list[str] | None) -> None:
    """Delete, compact and merge all there is."""
    for topic in topics or ():
        log.partitions_of(topic)  # an error where there is none
    done = log.maintain(topics or None, fully=True)
    output().print(
        f"{wording.number(done.deleted)} records deleted, {wording.number(done.superseded)} superseded, "
        f"{wording.number(done.merged)} segments merged, {wording.number(done.removed)} files removed"
    )


def export(log: Log, topic: str, file: Path) -> None:
    """Write all records of a topic to a Parquet file."""
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


def _pairs(definitions: list[str] | None) -> dict[str, str]:
    found = {}
    for definition in definitions or []:
        key, separator, value = definition.partition("=")
        if not separator:
            raise ConfigurationError(f"--config {definition}: expected KEY=VALUE, retention.ms=7d say")
        found[key.strip()] = value.strip()
    return found


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
    return job_and_sink(producer) or (producer, "")


def _lags(log: Log, name: str) -> Iterator[tuple[str, ...]]:
    group = log.groups()[name]
    owners = {each: member_id for member_id, member in group.members.items() for each in member.owned}
    counts = log.topics()
    for partition in sorted({*group.offsets, *owners}):
        committed = group.offsets.get(partition)
        is_there = partition.partition < counts.get(partition.topic, 0)
        end = log.end_offsets([partition])[partition] if is_there else None
        lag = "" if committed is None or end is None else wording.number(end - committed.offset)
        yield (
            name,
            str(partition),
            "" if committed is None else str(committed.offset),
            "" if end is None else str(end),
            lag,
            owners.get(partition, ""),
        )
