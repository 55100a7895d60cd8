"""``HybridSource``: a bounded source, then another one, from where the first has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from headrace.common.arguments import expect, refused, uncalled
from headrace.common.errors import InvalidTypeError
from headrace.common.type_variables import T_co
from headrace.connectors.hybrid.enumerator import HybridEnumerator
from headrace.connectors.hybrid.switching import LaterSource, SourceChain, SourceSwitchContext
from headrace.connectors.source import Boundedness, Source, SourceReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.hybrid.switching import SourceFactory
    from headrace.connectors.source import EnumeratorContext, Json, ReaderContext, SourceRecords, SplitEnumerator


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

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain

    @staticmethod
    def builder(first_source: Source[Any]) -> HybridSourceBuilder:
        """Begin with the source that is read first; it has to be bounded if another one is to follow."""
        return HybridSourceBuilder(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self._chain.sources[-1].boundedness

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._chain.produced_type

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._chain.dead_letter

    @property
    def locations(self) -> tuple[str, ...]:
        return tuple(location for source in self._chain.known for location in source.locations)

    @property
    def gives_timestamps(self) -> bool:
        return all(source.gives_timestamps for source in self._chain.known)

    @property
    def can_replay(self) -> bool:
        return all(source.can_replay for source in self._chain.known)

    @property
    def reads_in_pieces(self) -> bool:
        """Where any may be; the others are asked for one piece."""
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return HybridEnumerator(self._chain, context)

    def create_reader(self) -> SourceReader:
        return _HybridReader(self._chain)

    def __repr__(self) -> str:
        return f"HybridSource({', '.join(map(repr, self._chain.sources))})"


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
        self._chain = SourceChain((first_source,), first_source.produced_type, first_source.dead_letter)

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
        before = self._chain.sources[-1]
        if before.boundedness is not Boundedness.BOUNDED:
            number = len(self._chain.sources)
            raise refused(f"source {number} of a HybridSource never ends, so nothing can follow it: bound it")
        if isinstance(next_source, Source):
            self._chain.check(next_source, len(self._chain.sources))
            added: Source[Any] | LaterSource = next_source
        else:
            if not callable(next_source):
                text = f"add_source takes a Source, or a function that makes one, not {next_source!r}"
                raise refused(text + uncalled(next_source, Source), InvalidTypeError)
            added = LaterSource(next_source, boundedness)
        self._chain = SourceChain((*self._chain.sources, added), self._chain.produced_type, self._chain.dead_letter)
        return self

    def build(self) -> HybridSource[T_co]:
        """The source."""
        return HybridSource(self._chain)


class _HybridReader(SourceReader):
    """Reads pieces of all sources of a chain, with the reader of the one that a piece is of."""

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain
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
            source = self._chain.source(index, None if switch is None else SourceSwitchContext.of_json(switch))
            reader = source.create_reader()
            if self._context is not None:
                reader.open(self._context)
            self._reader, self._of = reader, (index, switch)
        return self._reader
