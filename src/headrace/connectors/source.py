"""The source framework: what a connector has to offer so that a job can read from it exactly once.

A source has two halves. The **enumerator** lives in the driver: it finds splits, says how far each one can be read now
and cuts an epoch's share of it into pieces. The **reader** lives in the task: it reads one piece, straight into Arrow
where it can. A piece has fixed ends, so reading it again gives the same records; that is all that exactness requires of
a source.

A *split* is the unit of event time: one Kafka partition, one log partition, or a set of files read in one order. It
has a watermark of its own. A *piece* is the unit of parallel work: an epoch's share of one split may be cut into
several, in reading order, and the engine makes the watermarks of the split whole again.
"""

import enum
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.logs import get_logger
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import SchemaCheck
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.datasets import LineageDataset
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_MOST_KEPT: Final = 64


class Closable(Protocol):
    """Holds connections."""

    def close(self) -> None:
        """Let go of them."""


C = TypeVar("C", bound=Closable)


@dataclass(eq=False, slots=True)
class KeptClients:
    """The clients of one process and one run of a job that are not in use.

    Tasks change places between the processes of a machine again and again, and some clients take longer to be ready
    than an epoch takes. A client has one user at a time. Who takes one makes no use of what the user before has done
    with it: where to read, and what to write, the epoch says.
    """

    _idle: OrderedDict[Hashable, list[Closable]] = field(default_factory=OrderedDict)

    def take(self, key: Hashable, kind: type[C]) -> C | None:
        """A client that was kept under a key, for the caller alone; None where there is none.

        Args:
            key: what it is connected to, and for what.
            kind: its class.
        """
        kept = self._idle.get((kind, key))
        if not kept:
            return None
        client = kept.pop()
        if not kept:
            del self._idle[kind, key]
        assert isinstance(client, kind)
        return client

    def keep(self, key: Hashable, client: Closable) -> None:
        """Take a client back that is as good as new; the one that was unused for longest makes room.

        Args:
            key: as for :meth:`take`.
            client: the client.
        """
        self._idle.setdefault((type(client), key), []).append(client)
        self._idle.move_to_end((type(client), key))
        while sum(map(len, self._idle.values())) > _MOST_KEPT:
            oldest = next(iter(self._idle))
            _close(self._idle[oldest].pop(0))
            if not self._idle[oldest]:
                del self._idle[oldest]

    def close(self) -> None:
        """Close all that are kept; what closing them fails with is logged."""
        idle, self._idle = self._idle, OrderedDict()
        for clients in idle.values():
            for client in clients:
                _close(client)


def _close(client: Closable) -> None:
    try:
        client.close()
    except Exception:
        logger.warning("closing %s failed", type(client).__name__, exc_info=True)


Json = Any
"""Anything that :mod:`json` can write: positions and pieces are part of the manifest."""


class Boundedness(enum.Enum):
    """Tells whether a source ends.

    Examples:
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> NumberSequenceSource(1, 3).boundedness
        <Boundedness.BOUNDED: 'bounded'>
    """

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class ReadBudget:
    """The limits on an epoch's share of one split.

    Attributes:
        records: the most records.
        bytes: the most bytes, as the source stores them.
        pieces: into how many pieces the share should be cut, if it can be.
        cuts_cost_nothing: whether it is cut only where reading the pieces takes no longer than reading the whole.
    """

    records: int
    bytes: int
    pieces: int = 1
    cuts_cost_nothing: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """The backlog of a split: what is there, and has not been read yet.

    Attributes:
        records: how many records; None if only reading them would tell.
        bytes: how many bytes, as the source stores them; None where that is not known, or says nothing.
    """

    records: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SplitRead:
    """An epoch's share of one split: everything from ``start`` up to ``end``.

    Attributes:
        split_id: the split.
        start: the position where the epoch before ended.
        end: the position where the next epoch goes on.
        pieces: what the reader needs to read the share, in reading order; each is JSON and read by one task.
        records: how many records there are, or the best estimate.
        bytes: how many bytes, or the best estimate.
    """

    split_id: str
    start: Json
    end: Json
    pieces: tuple[Json, ...]
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """Consecutive records as a reader hands them over: rows or columns of the produced type, not both.

    Attributes:
        columns: the records under the schema of the produced type.
        rows: the records as Python objects.
        kinds: what records in columns do in a changelog, as values of ``RowKind``; None where all are insertions, and
            where the type has a column for it.
        timestamps: the source's own timestamps in milliseconds (a broker's, say), if it has any.
        rejected: rows that could not be read, for the dead-letter output, as ``(where, raw, reason)``.
        counters: what to add to the job's counters, by name.
    """

    columns: pa.RecordBatch | None = None
    rows: list[Any] | None = None
    kinds: npt.NDArray[np.int8] | None = None
    timestamps: npt.NDArray[np.int64] | None = None
    rejected: list[tuple[str, str, str]] = field(default_factory=list)
    counters: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        return 0 if self.columns is None else int(self.columns.num_rows)

    def part(self, start: int, end: int) -> "SourceRecords":
        """The records from one up to another; without what was rejected, timestamps and counters."""
        if self.columns is None:
            return SourceRecords(rows=(self.rows or [])[start:end])
        kinds = None if self.kinds is None else self.kinds[start:end]
        return SourceRecords(columns=self.columns.slice(start, end - start), kinds=kinds)


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """The context in which a reader is opened.

    Attributes:
        storage_options: how object stores are reached, by the names that their clients have; not shown, since there are
            secrets among them.
        clients: connections of this process that readers of the job can hand to each other.
    """

    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    clients: KeptClients = field(default_factory=KeptClients, repr=False, compare=False)


class SourceReader(ABC):
    """Reads pieces inside a task. Two calls with the same piece give the same records in the same order.

    It lives as long as the task's instance, usually for many epochs, so that it may keep connections and buffers. What
    it keeps is not state: any other reader may get the next piece.
    """

    def open(self, context: ReaderContext) -> None:
        """Called once, before the first piece."""

    @abstractmethod
    def read(self, piece: Json) -> Iterator[SourceRecords]:
        """The records of a piece, in order, in batches of some ten thousand records.

        Raises:
            BadRecordError: on a row that cannot be read, naming file and line, when there is no dead-letter output.
            SourceChangedError: when what was planned is no longer what is there.
            OSError: on a passing fault; the task is run again.
        """

    def close(self) -> None:
        """Let go of connections and files."""


class FunctionReader(SourceReader):
    """Reads pieces by a function, and keeps nothing between them."""

    def __init__(self, function: Callable[[Json], Iterator[SourceRecords]]) -> None:
        self._function = function

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        return self._function(piece)


@dataclass(frozen=True, slots=True)
class EnumeratorContext:
    """The context in which an enumerator is created.

    Attributes:
        parallelism: how many tasks read at the same time.
        folder: a folder of the job's checkpoint directory that belongs to this source alone, for incremental state that
            is too large for the manifest, and for staged data; ``make()`` it before something is put there.
        state: what :meth:`SplitEnumerator.snapshot` gave last, or None at the first start.
        storage_options: as in :class:`ReaderContext`.
    """

    parallelism: int
    folder: Folder
    state: Json | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


class SplitEnumerator(ABC):
    """Finds splits and plans what an epoch reads of them; lives in the driver, called by one thread."""

    @abstractmethod
    def discover(self, now: int) -> Sequence[str]:
        """The ids of the splits known by now, in a stable order (new ones at the end).

        A split that has finished need not be listed any more once :meth:`checkpoint_completed` got its last
        position. It is then forgotten, and its id must not be listed again: it would be read from its beginning. Of a
        finished split that is still listed the id is kept, in memory and in every manifest, so a source of ever new
        splits should leave them out, and keep them out of :meth:`snapshot`. A split that has not finished is read to
        its end whether it is listed or not.

        Args:
            now: the reading of the job's clock in milliseconds.

        Raises:
            OSError: on a passing fault. An incomplete list would do no harm, but would go unnoticed.
            InfrastructureError: likewise.
        """

    @abstractmethod
    def initial_position(self, split_id: str) -> Json:
        """The position of a split that was never read."""

    @abstractmethod
    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        """An epoch's share of a split, or None when there is nothing beyond ``position`` now (the split is idle).

        May be called again, with a smaller budget, for the same epoch; the last answer counts.
        """

    @abstractmethod
    def is_finished(self, split_id: str, position: Json) -> bool:
        """Tell whether nothing will ever come beyond ``position``."""

    def is_complete(self) -> bool:
        """Tell whether no further split will ever be discovered."""
        return True

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        """The backlog beyond ``position``; not known, unless overridden.

        Called after every epoch and shown as ``pendingRecords`` and ``pendingBytes``. So it is to be quick: what the
        last look at the system found will do. Of bytes alone records are estimated.

        Args:
            split_id: the split.
            position: where it goes on.
            now: the reading of the job's clock in milliseconds.
        """
        return Pending()

    def is_processing_backlog(self, now: int) -> bool:
        """Tell whether what is read now is history, for which throughput counts more than latency; False by default.

        Epochs are longer then, see ``execution.checkpointing.interval-during-backlog``.
        """
        return False

    def gauges(self) -> Mapping[str, int]:
        """Further metrics by name, shown as ``<source>.<name>``; called after every epoch."""
        return {}

    def snapshot(self) -> Json:
        """The state, besides the positions, with which it goes on after a restart; small, as the manifest has it."""
        return None

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        """A manifest exists that holds ``positions``; what lies before them will never be read again.

        After a restart this is called at once, with the positions of the manifest that the job goes on from.

        Args:
            positions: those of all splits that have not finished, and of those that did in the manifest's own epoch.
        """

    def close(self) -> None:
        """Let go of connections and files."""


class Source(ABC, Generic[T_co]):
    """A description of where records come from; immutable and picklable, it travels to driver and tasks.

    Examples:
        >>> from headrace.connectors.source import Boundedness
        >>> from headrace.datastream.connectors import NumberSequenceSource, Source
        >>> source = NumberSequenceSource(1, 3)
        >>> isinstance(source, Source), source.boundedness is Boundedness.BOUNDED, source.produced_type
        (True, True, Long)
    """

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Tell whether the source ends."""

    @property
    @abstractmethod
    def produced_type(self) -> TypeInformation[T_co]:
        """The type of the records, fixed before the job starts."""

    @abstractmethod
    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """The driver's half, at first start or from restored state."""

    @abstractmethod
    def create_reader(self) -> SourceReader:
        """The task's half."""

    @property
    def position_kind(self) -> str:
        """The kind of its positions; a checkpoint's positions are given to no source of another kind.

        The name of the class. A class that was renamed gives the name that it had, so that its jobs go on.
        """
        return type(self).__name__

    @property
    def locations(self) -> tuple[str, ...]:
        """The paths, topics or the like that it reads, in any order; empty where there are none.

        A checkpoint keeps them. A job that goes on with others gets a warning, and is refused when they are known to be
        those of another source; so they should hold nothing that changes by itself, and no secrets.
        """
        return ()

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        """The datasets that it reads, for lineage; none where others cannot know them."""
        return ()

    @property
    def inner(self) -> "tuple[Source[Any], ...]":
        """The sources whose records it passes on; none where it reads by itself."""
        return ()

    def check_schemas(self) -> Iterator[SchemaCheck]:
        """Compare the schemas by which it reads with those of a registry, if it uses one."""
        for source in self.inner:
            yield from source.check_schemas()

    @property
    def dead_letter(self) -> OutputTag | None:
        """The side output for rows that cannot be read; None makes such a row fail the job."""
        return None

    @property
    def gives_timestamps(self) -> bool:
        """Tell whether records may have timestamps; if not, windows of event time behind it need a timestamp assigner.

        A job is refused before it starts where they have none.
        """
        return True

    @property
    def can_replay(self) -> bool:
        """Tell whether a piece can be read again after a restart of the job.

        What has been read of a source that cannot, and is in no checkpoint yet, is lost when the job restarts. A job
        with such a source warns of that when it is started.
        """
        return True

    @property
    def reads_in_pieces(self) -> bool:
        """Tell whether a split's share of an epoch can be cut into several pieces."""
        return False
