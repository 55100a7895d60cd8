"""The source that a connector makes for a table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.common.logical_types import LogicalType
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.source import Source
from headrace.formats.statistics import Statistics
from headrace.graph.stream_graph import Edge
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.table_lookup import TableLookup

Partition = tuple[str | None, ...]
"""The values of the partition columns, as texts."""


_NOW: Final = "now "
_EXPECTED: Final = "a time in milliseconds, or 'now' and one: 'now 1767268800000'"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The first rows that are read.

    Attributes:
        since: the time of the first of them, in milliseconds.
        is_now: whether that is the present, so that a table without times begins with what comes next.
    """

    since: int
    is_now: bool = False

    @classmethod
    def parse(cls, text: str) -> "StartPosition":
        """Read a position as ``str`` writes it.

        Raises:
            ValueError: when it is none, with what is expected.
        """
        millis = text.removeprefix(_NOW).strip()
        if not millis.isdecimal():
            raise ValueError(_EXPECTED)
        return cls(int(millis), text.startswith(_NOW))

    def __str__(self) -> str:
        return f"{_NOW if self.is_now else ''}{self.since}"


class TableSource(ABC):
    """A table that can be read (Flink's ``ScanTableSource``)."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The row kinds of its rows."""
        return ChangelogMode.INSERT

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        """The keys of ``METADATA`` columns that it can read, with their types."""
        return {}

    @property
    def statistics(self) -> Statistics | None:
        """The statistics of its rows (Flink's ``SupportsStatisticReport``); None where there are none."""
        return None

    @property
    def can_be_read_whole(self) -> bool:
        """Return whether all of its rows are there when a statement is planned, so that any task can read them."""
        return False

    @property
    def can_project(self) -> bool:
        """Return whether it can read a subset of the columns (Flink's ``SupportsProjectionPushDown``)."""
        return False

    @property
    def can_filter(self) -> bool:
        """Return whether it can use conditions to read fewer rows (Flink's ``SupportsFilterPushDown``)."""
        return False

    @property
    def can_limit(self) -> bool:
        """Return whether it can stop early when some rows are enough (Flink's ``SupportsLimitPushDown``)."""
        return False

    def starting_at(self, start: StartPosition) -> "TableSource | None":
        """The source that begins there, whatever its options say; None where it has no such position."""
        return None

    @property
    def partitions(self) -> Sequence[Partition] | None:
        """The partitions (Flink's ``SupportsPartitionPushDown``); None where some of them cannot be read alone."""
        return None

    @property
    def can_look_up(self) -> bool:
        """Return whether rows can be looked up by a key (Flink's ``LookupTableSource``)."""
        return False

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        """Return how rows are looked up.

        Args:
            keys: the columns whose values are known.

        Raises:
            ConfigurationError: when options are wrong, or more columns have to be known.
        """
        raise AssertionError("it cannot be looked up")

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Return whether it is bounded."""

    @abstractmethod
    def create_source(self, metadata: Sequence[str]) -> Source:
        """The source of rows: the physical columns in the order of the table, and then metadata columns.

        Args:
            metadata: the keys of the metadata to read.
        """

    @property
    def summary(self) -> str:
        """The name of the source in plans."""
        return type(self).__name__


@dataclass(frozen=True)
class GraphSource(TableSource):
    """A source table over a stream: the records of an operator in the graph.

    Attributes:
        edges: the edges that carry the records.
        places: the positions of the physical columns among their fields.
        record_type: their type.
        mode: their row kinds.
    """

    edges: tuple[Edge, ...]
    places: tuple[int, ...]
    record_type: TypeInformation
    mode: ChangelogMode
    is_bounded = False

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    @property
    def summary(self) -> str:
        return "stream"

    def create_source(self, metadata: Sequence[str]) -> Source:
        raise AssertionError("the operator is there already")
