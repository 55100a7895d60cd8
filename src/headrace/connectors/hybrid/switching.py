"""The sources of a hybrid source, and what a later one is told of the one before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.connectors.source import Boundedness, Source

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import Json


@dataclass(frozen=True, slots=True)
class SourceSwitchContext:
    """What the next source of a hybrid source is made from. It is part of the checkpoint.

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

    def to_json(self) -> Json:
        """For the checkpoint, and for tasks."""
        return [dict(self.positions), self.started_at]

    @staticmethod
    def of_json(value: Json) -> SourceSwitchContext:
        """What :meth:`to_json` gave."""
        positions, started_at = value
        return SourceSwitchContext(positions, started_at)


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


@dataclass(frozen=True, slots=True)
class SourceChain:
    """The sources of a hybrid source in their order.

    Attributes:
        sources: the sources, or how later ones are made.
        produced_type: the type of the records of all.
        dead_letter: the side output for what cannot be read, of all that have one.
    """

    sources: tuple[Source | LaterSource, ...]
    produced_type: TypeInformation
    dead_letter: OutputTag | None

    @property
    def known(self) -> list[Source]:
        """The sources that need not be made."""
        return [source for source in self.sources if isinstance(source, Source)]

    def is_last(self, index: int) -> bool:
        """Whether no source follows."""
        return index == len(self.sources) - 1

    def source(self, index: int, context: SourceSwitchContext | None) -> Source:
        """A source of the chain.

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
        self.check(made, index)
        return made

    def check(self, source: Source, index: int) -> None:
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
