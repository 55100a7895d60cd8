"""``VersionLog``: what windows hold in the course of a batch, noted one by one and worked out together.

Where windows merge, or are shown while records come, it has to be followed record by record which of them a window
consists of whenever it is shown. What it holds then is still added up in columns: the records of each part at once,
then the parts of each version of a window.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, gather
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.window.columnar.accumulators import stretches
from headrace.state.runs.grouping import Groups

Longs = npt.NDArray[np.int64]
Columns = list[pa.Array]


class VersionLog:
    """Parts of windows, and versions of these that consist of them.

    A part is some records, or what was added up before. Versions of a window that follow one another are a chain: each
    one is the one before and the parts that came since.
    """

    def __init__(self) -> None:
        self._parts = self._chains = 0
        self._rows: list[int] = []
        self._row_parts: list[int] = []
        self._version_chains: list[int] = []
        self._pair_parts: list[int] = []  # of each pair of a part and a version
        self._pair_versions: list[int] = []

    def new_part(self) -> int:
        """A part without records."""
        self._parts += 1
        return self._parts - 1

    def new_chain(self) -> int:
        """The number of a window whose versions follow one another."""
        self._chains += 1
        return self._chains - 1

    def add(self, part: int, row: int) -> None:
        """Adds a record, which is a row of all of them, to a part."""
        self._rows.append(row)
        self._row_parts.append(part)

    def new_version(self, chain: int, parts: Sequence[int]) -> int:
        """Add a version of a window: its last version, and the parts that came since, at least one."""
        version = len(self._version_chains)
        self._version_chains.append(chain)
        self._pair_parts.extend(parts)
        self._pair_versions.extend([version] * len(parts))
        return version

    @property
    def has_versions(self) -> bool:
        """Return whether there is anything to work out."""
        return bool(self._version_chains)

    def parts_of_records(self, accumulate: Callable[[Groups], Columns]) -> tuple[Longs, Columns]:
        """The numbers of the parts that records were added to, and their accumulators; none without records."""
        if not self._rows:
            return np.empty(0, np.int64), []
        parts = np.array(self._row_parts)
        order = np.argsort(parts, kind="stable")
        segments = stretches(parts[order])
        return parts[order][segments.starts], accumulate(Groups(np.array(self._rows)[order], segments))

    def versions(self, aggregators: AggregatorList, parts: Iterable[tuple[Longs, Columns]]) -> Columns:
        """The accumulators of all versions, by their numbers.

        Args:
            aggregators: what windows remember.
            parts: the numbers and the accumulators of all parts.
        """
        numbers, tables = zip(*((numbers, columns) for numbers, columns in parts if len(numbers)), strict=True)
        places = np.empty(self._parts, np.int64)
        places[np.concatenate(numbers)] = np.arange(sum(map(len, numbers)))
        chains, versions = np.array(self._version_chains), np.array(self._pair_versions)
        order = np.argsort(chains[versions], kind="stable")
        rows, versions = places[np.array(self._pair_parts)[order]], versions[order]
        of_pairs = [gather(concat(list(columns)), rows) for columns in zip(*tables, strict=True)]
        segments = stretches(versions)
        versions = versions[segments.starts]
        columns = aggregators.merge(of_pairs, segments)
        columns = aggregators.scan(columns, stretches(chains[versions]))
        return [gather(column, np.argsort(versions)) for column in columns]


class LoggedWindow:
    """A window as a log has it.

    Attributes:
        parts: all parts that it consists of.
        version: its last version; -1 when there is none.

    Args:
        log: the log.
        parts: those that it consists of at first.
    """

    __slots__ = ("_chain", "_open_part", "_pending", "parts", "version")

    def __init__(self, log: VersionLog, parts: Sequence[int] = ()) -> None:
        self.version = -1
        self.begin(log, parts)

    def begin(self, log: VersionLog, parts: Sequence[int] = ()) -> None:
        """Has the window consist of some parts alone; what it has shown is left as it is."""
        self._chain, self._open_part = log.new_chain(), -1
        self.parts, self._pending = list(parts), list(parts)

    def take(self, parts: Iterable[int]) -> None:
        """Has the window consist of more parts."""
        self.parts.extend(parts)
        self._pending.extend(parts)

    def add(self, log: VersionLog, row: int) -> None:
        """Adds a record, which is a row of all of them."""
        if self._open_part < 0:
            self._open_part = log.new_part()
            self.take((self._open_part,))
        log.add(self._open_part, row)

    def close_part(self) -> None:
        """Has records that come be of another part than those before."""
        self._open_part = -1

    def now(self, log: VersionLog) -> int:
        """The present contents of the window, as a version."""
        if self._pending:
            self.version = log.new_version(self._chain, self._pending)
            self._pending, self._open_part = [], -1
        return self.version
