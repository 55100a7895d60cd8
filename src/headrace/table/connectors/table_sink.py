"""The sink that a connector makes for a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.common.config_options import ConfigOption, integer
from headrace.common.logical_types import LogicalType
from headrace.connectors.sink import Sink
from headrace.table.connectors.changelog_mode import ChangelogMode

PARALLELISM: Final = ConfigOption[int | None]("sink.parallelism", integer(1, 2**15), None, "How many tasks write.")


class Staging(Enum):
    """The treatment of rows at the place of a table that a statement creates atomically."""

    CREATE = "CREATE"
    """They stay, as the rows of ``INSERT INTO`` are added to them."""
    REPLACE = "REPLACE"
    """They are replaced."""


class TableSink(ABC):
    """A table that can be written (Flink's ``DynamicTableSink``)."""

    @abstractmethod
    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """The row kinds that it accepts, given those of a query.

        Args:
            requested: the row kinds of the query.
        """

    @abstractmethod
    def create_sink(self, metadata: Sequence[str]) -> Sink:
        """The sink of rows: the physical columns in the order of the table, and then metadata columns.

        Args:
            metadata: the keys of the metadata to write.
        """

    def overwriting(self) -> TableSink | None:
        """The sink that replaces the rows of the table, or of the partitions that are written, by those of a query.

        It takes the place of this one in ``INSERT OVERWRITE`` (Flink's ``SupportsOverwrite``). None, the default: rows
        can only be added.
        """
        return None

    def staged(self, staging: Staging) -> TableSink | None:
        """The sink that shows no rows before the job has finished, and then all at once.

        It takes the place of this one in ``CREATE TABLE ... AS`` and ``REPLACE TABLE ... AS`` of batch mode with
        ``table.rtas-ctas.atomicity-enabled`` (Flink's ``SupportsStaging``). None, the default: rows can be seen
        earlier.

        Args:
            staging: what becomes of the rows that are there.
        """
        return None

    @property
    def parallelism(self) -> int | None:
        """Return how many tasks write; None for as many as give it rows."""
        return None

    @property
    def writable_metadata(self) -> Mapping[str, LogicalType]:
        """The keys of ``METADATA`` columns that it writes, with their types."""
        return {}

    @property
    def summary(self) -> str:
        """The name of the sink in plans."""
        return type(self).__name__


@dataclass(frozen=True)
class GraphSink(TableSink):
    """A stream of the changes of a query: the operator that computes them, in the graph.

    Attributes:
        mode: the row kinds of the stream.
    """

    mode: ChangelogMode

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return self.mode

    def create_sink(self, metadata: Sequence[str]) -> Sink:
        raise AssertionError("the rows are a stream")
