"""The manifest of an epoch: all that has to be known to go on from there, in one file that exists or does not."""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import CheckpointError
from headrace.state.backend import DEFAULT_BACKEND
from headrace.state.protocols import NO_STATE, StateKind, StateKinds, names_of
from headrace.state.state_file import VersionRef

Document = dict[str, Any]

FORMAT_VERSION: Final = 5
"""Raised when a headrace of an older version could not read a manifest; what it lacks is then added to ``_NEXT``."""


def upgraded(document: Document, name: str) -> Document:
    """A manifest's document as the present format has it.

    Args:
        document: as it was read.
        name: the manifest.

    Raises:
        CheckpointError: when it is of a newer version of headrace, or of one before all that can be read.
    """
    if document["format"] not in (known := [*sorted(_NEXT), FORMAT_VERSION]):
        raise CheckpointError(
            f"manifest {name} has format {document['format']}, this headrace reads format "
            f"{' and '.join(map(str, known))}: go on with the version that wrote it, or start with a fresh "
            "checkpoint directory and a fresh output"
        )
    for older in range(document["format"], FORMAT_VERSION):
        document = {**_NEXT[older](document), "format": older + 1}
    return document


_NEXT: Final[Mapping[int, Callable[[Document], Document]]] = {}
"""The functions that bring a document to the next format, by each format that can be read."""


OperatorCounters = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Totals by uid, name and subtask."""

_CHECKSUM = b',"checksum":"%08x"}'
"""The end of every manifest: the checksum of all before it."""


@dataclass(frozen=True, slots=True)
class SplitSnapshot:
    """The progress of one split.

    Attributes:
        split_id: the enumerator's id for it.
        channel: its number within the job.
        position: where the next epoch goes on.
        watermarks: by operator uid, the watermark that was made of its records.
        finished: whether nothing will come any more.
        generators: by operator uid, the memory of generators of watermarks that have one.
    """

    split_id: str
    channel: int
    position: object
    watermarks: Mapping[str, int] = field(default_factory=dict)
    finished: bool = False
    generators: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """The identity of the source of a position.

    Attributes:
        kind: its :attr:`~headrace.connectors.source.Source.position_kind`.
        locations: where it reads, each once and in order.
    """

    kind: str
    locations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.locations)})" if self.locations else self.kind


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """One source.

    Attributes:
        enumerator: what its enumerator wants to know again.
        splits: its splits, but for those that had finished in an earlier epoch.
        finished: of those, the ids that the enumerator still lists.
        identity: which source it was; None where nothing is known of that.
    """

    enumerator: object
    splits: tuple[SplitSnapshot, ...] = ()
    finished: tuple[str, ...] = ()
    identity: SourceIdentity | None = None

    @property
    def is_begun(self) -> bool:
        """Return whether there is anything to go on from."""
        return bool(self.splits or self.finished) or self.enumerator is not None


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """The event time that one subtask of an operator has reached, and the watermark that it has passed on.

    Attributes:
        watermark: the event time.
        output: the watermark.
        generator: the memory of its generator of watermarks, if it has one.
    """

    watermark: int = MIN_WATERMARK
    output: int = MIN_WATERMARK
    generator: object = None


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One task of a stage.

    Attributes:
        version: its state; None where no operator of the stage may hold any.
        progress: by operator uid.
        earliest_timer: its earliest pending processing-time timer in milliseconds.
    """

    version: VersionRef | None = None
    progress: Mapping[str, OperatorProgress] = field(default_factory=dict)
    earliest_timer: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """An operator of a stage: where its state is, and what kind of state.

    Attributes:
        parallelism: how many subtasks it had; they were in the first partitions.
        max_parallelism: how many key groups it had.
        state_kinds: what it may have come to hold; a program must not lose it.
    """

    parallelism: int
    max_parallelism: int
    state_kinds: StateKinds = NO_STATE


@dataclass(frozen=True, slots=True)
class StageSnapshot:
    """All tasks of a stage; the operators that it held say where their state is after the program has changed.

    Attributes:
        operators: by uid. Of stage 0 only those that may hold state: event time is kept by split there.
        partitions: its tasks; none for a stage 0 without such operators.
    """

    operators: Mapping[str, OperatorSnapshot] = field(default_factory=dict)
    partitions: tuple[PartitionSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """Committables of one epoch and one sink that are not acknowledged yet."""

    epoch: int
    sink: str
    processing_time: int
    committables: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of a job at the end of an epoch.

    Attributes:
        epoch: the epoch's number.
        generation: a number that rises with each start of the job, and each restart within a process.
        job_id: the job's id, the same for its whole life.
        job_name: the job's name.
        max_parallelism: the number of key groups of an operator that has none of its own, fixed for the life of the
            state.
        processing_time: the reading of the job's clock; the clock of a later life starts no earlier.
        sources: by uid.
        stages: all stages, from stage 0 on; none before the first epoch.
        pending: committables that have to be committed (again) after a restart.
        in_progress: by uid of the sink, the output that waits for more before it is committed; see
            :class:`headrace.connectors.sink.PreCommit`. In the file it is called ``held``, as ever.
        finished: whether the job came to its end.
        counters: totals of the job since its first start, for the user.
        operator_counters: those of its operators.
        state_backend: the name of the state backend whose versions it refers to, fixed for the life of the state.
        state_bytes: the bytes in all runs of the state, without what is dead in their files; None if not known.
        restored_from: the savepoint that the job began with, until its first epoch is complete; empty for none.
        format: the format that it was read in; it is written in the present one. No part of what it says.
    """

    epoch: int
    generation: int
    job_id: str
    job_name: str
    max_parallelism: int
    processing_time: int
    sources: Mapping[str, SourceSnapshot] = field(default_factory=dict)
    stages: tuple[StageSnapshot, ...] = ()
    pending: tuple[PendingCommit, ...] = ()
    in_progress: Mapping[str, object] = field(default_factory=dict)
    finished: bool = False
    counters: Mapping[str, int] = field(default_factory=dict)
    operator_counters: OperatorCounters = field(default_factory=dict)
    state_backend: str = DEFAULT_BACKEND
    state_bytes: int | None = None
    restored_from: str = ""
    format: int = field(default=FORMAT_VERSION, compare=False)

    def versions(self) -> Iterator[VersionRef]:
        """The versions of the state of all tasks that hold any."""
        for stage in self.stages:
            for partition in stage.partitions:
                if partition.version is not None and not partition.version.is_empty:
                    yield partition.version

    def pending_by_sink(self) -> dict[str, int]:
        """By uid of the sink, of how many epochs it has output to be committed."""
        return dict(Counter(map(attrgetter("sink"), self.pending)))

    def state_files(self) -> Iterator[str]:
        """The state files that this manifest needs."""
        for stage in self.stages:
            for partition in stage.partitions:
                if partition.version is not None:
                    yield from partition.version.files

    def to_bytes(self) -> bytes:
        """The manifest as JSON."""
        document = {
            "format": FORMAT_VERSION,
            "epoch": self.epoch,
            "generation": self.generation,
            "job_id": self.job_id,
            "job_name": self.job_name,
            "max_parallelism": self.max_parallelism,
            "state_backend": self.state_backend,
            "processing_time": self.processing_time,
            "sources": {uid: _source_to_json(source) for uid, source in self.sources.items()},
            "stages": [_stage_to_json(stage) for stage in self.stages],
            "pending": [[c.epoch, c.sink, c.processing_time, list(c.committables)] for c in self.pending],
            "held": dict(self.in_progress),
            "finished": self.finished,
            "counters": dict(self.counters),
            "operator_counters": {uid: dict(counters) for uid, counters in self.operator_counters.items()},
            "state_bytes": self.state_bytes,
            **({"restored_from": self.restored_from} if self.restored_from else {}),
        }
        body = json.dumps(document, separators=(",", ":")).encode()
        return body[:-1] + _CHECKSUM % zlib.crc32(body)

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> "Manifest":
        """Read what :meth:`to_bytes` wrote.

        Raises:
            CheckpointError: naming the manifest, when it is damaged or of a newer version of headrace.
        """
        try:
            document, found = _verified(content, name)
            return cls(
                epoch=document["epoch"],
                generation=document["generation"],
                job_id=document["job_id"],
                job_name=document["job_name"],
                max_parallelism=document["max_parallelism"],
                state_backend=document["state_backend"],
                processing_time=document["processing_time"],
                sources={uid: _source_from_json(source) for uid, source in document["sources"].items()},
                stages=tuple(_stage_from_json(stage) for stage in document["stages"]),
                pending=tuple(
                    PendingCommit(epoch, sink, time, tuple(items)) for epoch, sink, time, items in document["pending"]
                ),
                in_progress=document["held"],
                finished=document["finished"],
                counters=document["counters"],
                operator_counters={
                    uid: {name: tuple(by_subtask) for name, by_subtask in counters.items()}
                    for uid, counters in document["operator_counters"].items()
                },
                state_bytes=document["state_bytes"],
                restored_from=document.get("restored_from", ""),
                format=found,
            )
        except json.JSONDecodeError as error:
            raise CheckpointError(f"manifest {name} is damaged or cut short: {len(content)} bytes") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"manifest {name} is damaged: {type(error).__name__}: {error}") from error


def _verified(content: bytes, name: str) -> tuple[Document, int]:
    """A manifest's document in the current format, and the format that it was in."""
    document = json.loads(content)
    body = content[: -len(_CHECKSUM % 0)] + b"}"
    if content[len(body) - 1 :] != _CHECKSUM % zlib.crc32(body):
        raise CheckpointError(f"manifest {name} is damaged: its checksum is not that of its content")
    return upgraded(document, name), document["format"]


def _source_to_json(source: SourceSnapshot) -> Document:
    splits = [_split_to_json(split) for split in source.splits]
    identity = None if source.identity is None else [source.identity.kind, list(source.identity.locations)]
    return {
        "enumerator": source.enumerator,
        "splits": splits,
        "finished": list(source.finished),
        "identity": identity,
    }


def _split_to_json(split: SplitSnapshot) -> list[object]:
    known = [split.split_id, split.channel, split.position, dict(split.watermarks), split.finished]
    return [*known, dict(split.generators)] if split.generators else known


def _progress_to_json(reached: OperatorProgress) -> list[object]:
    known: list[object] = [reached.watermark, reached.output]
    return known if reached.generator is None else [*known, reached.generator]


def _source_from_json(document: Document) -> SourceSnapshot:
    splits = tuple(SplitSnapshot(*split) for split in document["splits"])
    known = document["identity"]
    identity = None if known is None else SourceIdentity(known[0], tuple(known[1]))
    return SourceSnapshot(document["enumerator"], splits, tuple(document["finished"]), identity)


def _stage_to_json(stage: StageSnapshot) -> Document:
    operators = {
        uid: [operator.parallelism, operator.max_parallelism, names_of(operator.state_kinds)]
        for uid, operator in stage.operators.items()
    }
    return {"operators": operators, "partitions": [_partition_to_json(partition) for partition in stage.partitions]}


def _stage_from_json(document: Document) -> StageSnapshot:
    operators = {
        uid: OperatorSnapshot(parallelism, max_parallelism, frozenset(map(StateKind, kinds)))
        for uid, (parallelism, max_parallelism, kinds) in document["operators"].items()
    }
    return StageSnapshot(operators, tuple(_partition_from_json(partition) for partition in document["partitions"]))


def _partition_to_json(partition: PartitionSnapshot) -> Document:
    return {
        "version": None if partition.version is None else partition.version.to_json(),
        "progress": {uid: _progress_to_json(reached) for uid, reached in partition.progress.items()},
        "timer": partition.earliest_timer,
    }


def _partition_from_json(document: Document) -> PartitionSnapshot:
    version = document["version"]
    return PartitionSnapshot(
        None if version is None else VersionRef.from_json(version),
        {uid: OperatorProgress(*reached) for uid, reached in document["progress"].items()},
        document["timer"],
    )
