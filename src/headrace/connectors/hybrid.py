"""``HybridSource``: a bounded source, then another one, from where the first has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias

from headrace.common.errors import CheckpointError, InvalidProgramError, InvalidTypeError, expect, refused, uncalled
from headrace.common.json_values import from_json, to_json
from headrace.common.logs import get_logger
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.datasets import LineageDataset
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    Json,
    Pending,
    ReadBudget,
    ReaderContext,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)

logger = get_logger(__name__)

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]


@dataclass(frozen=True, slots=True)
class SourceSwitchContext:
    """The context from which the next source of a hybrid source is made. It is part of the checkpoint.

    Attributes:
        positions: by split, how far the source before was read: its last position, as its connector writes positions.
            Splits that the source did not list any more when it ended are not there.
        started_at: when the job first looked at the source before, in milliseconds of its clock. What came later may
            not be in it.

    Examples:
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> from headrace.datastream.connectors.hybrid_source import SourceSwitchContext
        >>> def rest(context: SourceSwitchContext) -> NumberSequenceSource:
        ...     return NumberSequenceSource(context.positions["sequence"] + 1, 100)
        >>> rest(SourceSwitchContext({"sequence": 50}, 1_700_000_000_000))
        NumberSequenceSource(51, 100)
    """

    positions: Mapping[str, Json]
    started_at: int


SourceFactory: TypeAlias = Callable[[SourceSwitchContext], Source]
"""Makes a source from what is known of the one before it. It is called in the driver and in tasks, perhaps several
times, and has to make the same source of the same context."""


@dataclass(frozen=True, slots=True)
class LaterSource:
    """A source that is made when the one before it has ended.

    Attributes:
        factory: makes it.
        boundedness: whether it ends.
    """

    factory: SourceFactory
    boundedness: Boundedness


_ADVICE: Final = "sources may be added behind the others, but not be taken away or replaced"


class HybridEnumerator(SplitEnumerator):
    """Reads one source after the other.

    A source has ended when a manifest says that all its splits have, and none will follow. Only then is the next one
    made, so a restart at any moment finds either the first at its end or the second where it is. Splits are named
    after their source, as two sources may use one name.

    Args:
        hybrid: its sources.
        context: where it begins, or goes on.

    Raises:
        CheckpointError: when the program has other sources than those that the checkpoint knows.
    """

    def __init__(self, hybrid: HybridSource, context: EnumeratorContext) -> None:
        self._hybrid = hybrid
        self._context = context
        state = context.state or {"index": 0, "kind": None, "switch": None, "started": None, "finished": {}, "of": None}
        self._index: int = state["index"]
        self._switch = state["switch"] and from_json(SourceSwitchContext, state["switch"])
        self._started: int | None = state["started"]
        self._finished: dict[str, Json] = dict(state["finished"])
        self._open: set[str] = set()
        self._source = self._source_of(state["kind"])
        self._enumerator = self._begun(state["of"])

    def discover(self, now: int) -> Sequence[str]:
        if self._started is None:
            self._started = now
        while True:
            listed = self._enumerator.discover(now)
            self._finished = {split: self._finished[split] for split in listed if split in self._finished}
            self._open.update(split for split in listed if split not in self._finished)
            if self._is_last or self._open or not self._enumerator.is_complete():
                return [self._named(split) for split in listed]
            self._go_on(now)

    def initial_position(self, split_id: str) -> Json:
        return self._enumerator.initial_position(self._inner(split_id))

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        if not self._source.reads_in_pieces:
            budget = replace(budget, pieces=1)
        read = self._enumerator.plan(self._inner(split_id), position, budget, now)
        if read is None:
            return None
        switch = to_json(self._switch)
        pieces = tuple([self._index, switch, piece] for piece in read.pieces)
        return replace(read, split_id=split_id, pieces=pieces)

    def is_finished(self, split_id: str, position: Json) -> bool:
        return self._enumerator.is_finished(self._inner(split_id), position)

    def is_complete(self) -> bool:
        return self._is_last and self._enumerator.is_complete()

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return self._enumerator.pending(self._inner(split_id), position, now)

    def is_processing_backlog(self, now: int) -> bool:
        """True for all sources but the last one, which are history."""
        return not self._is_last or self._enumerator.is_processing_backlog(now)

    def gauges(self) -> Mapping[str, int]:
        return self._enumerator.gauges()

    def snapshot(self) -> Json:
        return {
            "index": self._index,
            "kind": self._source.position_kind,
            "switch": to_json(self._switch),
            "started": self._started,
            "finished": self._finished,
            "of": self._enumerator.snapshot(),
        }

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        prefix = self._named("")
        inner = {name.removeprefix(prefix): of for name, of in positions.items() if name.startswith(prefix)}
        for split, position in inner.items():
            if self._enumerator.is_finished(split, position):
                self._finished[split] = position
                self._open.discard(split)
            else:
                self._open.add(split)
        self._enumerator.checkpoint_completed(inner)

    def close(self) -> None:
        self._enumerator.close()

    @property
    def _is_last(self) -> bool:
        return self._index == len(self._hybrid.sources) - 1

    def _source_of(self, kind: str | None) -> Source:
        """The source that is read; ``kind`` is what it was when the checkpoint was written, if there is one."""
        number, count = self._index + 1, len(self._hybrid.sources)
        if number > count:
            raise CheckpointError(
                f"the checkpoint is of a HybridSource that reads its source {number}, a {kind}, and the program has "
                f"{count}: {_ADVICE}"
            )
        source = self._hybrid.source(self._index, self._switch)
        if kind not in (None, source.position_kind):
            raise CheckpointError(
                f"the checkpoint is of a HybridSource that reads its source {number}, a {kind}, and that of the "
                f"program is a {source.position_kind}: {_ADVICE}"
            )
        return source

    def _begun(self, state: Json | None) -> SplitEnumerator:
        folder = self._context.folder.folder(str(self._index))
        return self._source.create_enumerator(replace(self._context, folder=folder, state=state))

    def _go_on(self, now: int) -> None:
        """The source that is read has ended: begin with the next one."""
        assert self._started is not None
        logger.info("source %d of a HybridSource, %s, has ended", self._index + 1, self._source.position_kind)
        self._enumerator.close()
        self._switch = SourceSwitchContext(self._finished, self._started)
        self._index += 1
        self._started, self._finished = now, {}
        self._source = self._source_of(None)
        self._enumerator = self._begun(None)

    def _named(self, split_id: str) -> str:
        return f"{self._index}:{split_id}"

    def _inner(self, split_id: str) -> str:
        return split_id.removeprefix(self._named(""))


class HybridSource(Source[T_co]):
    """Reads sources one after the other: history from files, say, and then what is new from a broker.

    All but the last one are bounded, and all have records of one type. Which one is read, and from where, is part of
    the checkpoint, so records are neither lost nor read twice at the switch. While one of the first is read, the job
    processes a backlog: epochs are longer.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> from headrace.datastream.connectors.hybrid_source import HybridSource
        >>> history, rest = NumberSequenceSource(1, 3), NumberSequenceSource(4, 6)
        >>> source = HybridSource.builder(history).add_source(rest).build()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        >>> numbers.execute_and_collect(limit=10)
        [1, 2, 3, 4, 5, 6]
    """

    reads_in_pieces = True  # any of the sources may be; the others plan one piece

    def __init__(self, sources: Sequence[Source | LaterSource]) -> None:
        first = sources[0]
        assert isinstance(first, Source), "only a later one is made when it is read"
        self.sources = tuple(sources)
        self._first = first
        for index, source in enumerate(self.sources):
            if isinstance(source, Source):
                self._check(source, index)

    @staticmethod
    def builder(first_source: Source[Any]) -> HybridSourceBuilder:
        """Begin with the source that is read first; it has to be bounded if another one is to follow."""
        return HybridSourceBuilder(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self.sources[-1].boundedness

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._first.produced_type

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._first.dead_letter

    @property
    def locations(self) -> tuple[str, ...]:
        return tuple(location for source in self._known for location in source.locations)

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return tuple(dict.fromkeys(dataset for source in self._known for dataset in source.datasets))

    @property
    def inner(self) -> tuple[Source[Any], ...]:
        return tuple(self._known)

    @property
    def gives_timestamps(self) -> bool:
        return all(source.gives_timestamps for source in self._known)

    @property
    def can_replay(self) -> bool:
        return all(source.can_replay for source in self._known)

    @property
    def _known(self) -> list[Source]:
        """The sources that need not be made."""
        return [source for source in self.sources if isinstance(source, Source)]

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return HybridEnumerator(self, context)

    def create_reader(self) -> SourceReader:
        return _HybridReader(self)

    def __repr__(self) -> str:
        return f"HybridSource({', '.join(map(repr, self.sources))})"

    def source(self, index: int, context: SourceSwitchContext | None) -> Source:
        """One of the sources, made if it has to be.

        Args:
            index: which one.
            context: what is known of the one before; None for the first.

        Raises:
            InvalidProgramError: when a factory makes something else than was declared.
            InvalidTypeError: when it makes a source of other records.
        """
        found = self.sources[index]
        if isinstance(found, Source):
            return found
        assert context is not None
        made = found.factory(context)
        if not isinstance(made, Source):
            raise InvalidProgramError(
                f"source {index + 1} of a HybridSource has to be a Source, and its factory gave {made!r}"
            )
        if made.boundedness is not found.boundedness:
            raise InvalidProgramError(
                f"source {index + 1} of a HybridSource is {made.boundedness.value}, and was declared as "
                f"{found.boundedness.value}: name its boundedness in add_source()"
            )
        self._check(made, index)
        return made

    def _check(self, source: Source, index: int) -> None:
        """Refuse a source whose records cannot follow those of the others.

        Raises:
            InvalidProgramError: when its dead letters would go elsewhere.
            InvalidTypeError: when its records are of another type.
        """
        if source.produced_type != self.produced_type:
            raise InvalidTypeError(
                f"all sources of a HybridSource have records of one type: the first has {self.produced_type}, and "
                f"source {index + 1} has {source.produced_type}"
            )
        tag = source.dead_letter
        if tag is not None and tag != self.dead_letter:
            raise InvalidProgramError(
                f"source {index + 1} of a HybridSource has dead letters ({tag.tag_id!r}), and those of the sources "
                "before it go elsewhere, or fail the job: give all of them one OutputTag"
            )


class HybridSourceBuilder(Generic[T_co]):
    """Puts a :class:`HybridSource` together.

    Raises:
        InvalidTypeError: when the first argument is no source.

    Examples:
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> from headrace.datastream.connectors.hybrid_source import Boundedness, HybridSource
        >>> def rest(context):
        ...     return NumberSequenceSource(context.positions["sequence"] + 1, 100)
        >>> builder = HybridSource.builder(NumberSequenceSource(1, 50))
        >>> source = builder.add_source(rest, Boundedness.BOUNDED).build()
    """

    def __init__(self, first_source: Source[Any]) -> None:
        expect(first_source, Source, "HybridSource.builder")
        self._source: HybridSource[T_co] = HybridSource([first_source])

    def add_source(
        self,
        next_source: Source[Any] | SourceFactory,
        boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
    ) -> HybridSourceBuilder[T_co]:
        """Go on with another source when those before have ended.

        Args:
            next_source: the source; or a function that makes it then, from a :class:`SourceSwitchContext`. The function
                is called in the driver and in tasks, perhaps several times, and makes the same source of the same
                context.
            boundedness: whether the source ends that a function makes; a source says so itself.

        Raises:
            InvalidProgramError: when the source before does not end, or both have other dead letters.
            InvalidTypeError: when it is neither a source nor a function, or its records are of another type.
        """
        sources = self._source.sources
        if self._source.boundedness is not Boundedness.BOUNDED:
            raise refused(f"source {len(sources)} of a HybridSource never ends, so nothing can follow it: bound it")
        if not isinstance(next_source, Source) and not callable(next_source):
            text = f"add_source takes a Source, or a function that makes one, not {next_source!r}"
            raise refused(text + uncalled(next_source, Source), InvalidTypeError)
        added: Source | LaterSource = (
            next_source if isinstance(next_source, Source) else LaterSource(next_source, boundedness)
        )
        self._source = HybridSource([*sources, added])
        return self

    def build(self) -> HybridSource[T_co]:
        """The source."""
        return self._source


class _HybridReader(SourceReader):
    """Reads pieces of all sources, with the reader of the one that a piece is of."""

    def __init__(self, hybrid: HybridSource) -> None:
        self._hybrid = hybrid
        self._context: ReaderContext | None = None
        self._of: tuple[int, Json] | None = None
        self._reader: SourceReader | None = None

    def open(self, context: ReaderContext) -> None:
        self._context = context

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        index, switch, inner = piece
        return self._reader_of(index, switch).read(inner)

    def close(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()

    def _reader_of(self, index: int, switch: Json) -> SourceReader:
        if self._reader is None or self._of != (index, switch):
            self.close()
            source = self._hybrid.source(index, switch and from_json(SourceSwitchContext, switch))
            reader = source.create_reader()
            if self._context is not None:
                reader.open(self._context)
            self._reader, self._of = reader, (index, switch)
        return self._reader
