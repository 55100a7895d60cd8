"""The rows of a query after its changes so far, which are shown again and again while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from threading import Lock
from typing import Final

from headrace.table import TableResult
from headrace.table.environment.tableau import table_lines

_REDRAW_SECONDS: Final = 0.5


class RemainingRows:
    """The current rows of a changelog, in the order in which they arrived."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()

    def apply(self, change: Sequence[str]) -> None:
        """Apply a change: its kind, and the values of the row."""
        kind, row = change[0], tuple(change[1:])
        self._counts[row] += 1 if kind in ("+I", "+U") else -1
        if not self._counts[row]:
            del self._counts[row]

    def __len__(self) -> int:
        return sum(count for count in self._counts.values() if count > 0)

    def last(self, most: int) -> list[list[str]]:
        """The last of the current rows, up to a maximum."""
        newest = (row for row, count in reversed(self._counts.items()) for _ in range(max(count, 0)))
        return [list(row) for row in islice(newest, most)][::-1]


class CurrentRows:
    """The current rows of a query that runs.

    A thread reads them, so that the query can be interrupted and the rows redrawn while no changes arrive.

    Args:
        result: the result of the query.
    """

    def __init__(self, result: TableResult) -> None:
        self.names = result.get_resolved_schema().names
        self._result = result
        self._rows = RemainingRows()
        self._lock = Lock()
        self._state = ", running"

    def follow(self, redraw: Callable[[], None]) -> None:
        """Read all changes, and redraw the rows meanwhile and at the end.

        Raises:
            JobExecutionError: when the job of the query fails.
            KeyboardInterrupt: when Ctrl-C is pressed; the query is then stopped.
        """
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._read)
            try:
                while wait([reading], timeout=_REDRAW_SECONDS).not_done:
                    redraw()
                self._state = ", failed" if reading.exception() else ""
            except KeyboardInterrupt:
                self._state = ", stopped"
                raise
            finally:
                self._result.close()
                redraw()
        reading.result()

    def _read(self) -> None:
        for change in self._result.text_rows():
            with self._lock:
                self._rows.apply(change)

    def last(self, most: int) -> tuple[str, list[list[str]]]:
        """Return how many rows there are, in words, and the last of them, up to a maximum."""
        with self._lock:
            count, rows = len(self._rows), self._rows.last(most)
        part = f", the last {most} of them" if count > most else ""
        return f"{count} row{'' if count == 1 else 's'}{part}{self._state}", rows

    def lines(self, most: int) -> list[str]:
        """A table of the last rows, with their number below."""
        heading, rows = self.last(most)
        return [*[*table_lines(self.names, rows)][:-1], heading]
