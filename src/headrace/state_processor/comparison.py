"""What is different between the states of two jobs, or of one job at two times."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from headrace.common.arguments import refused, shown
from headrace.common.errors import InvalidTypeError
from headrace.savepoint.columns import ENCODED, WINDOW
from headrace.state.exported import NAMESPACE
from headrace.state.runs.layout import ENTRY_KEY, EXPIRY, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from headrace.state_processor.reader import SavepointReader

_IDENTITY: Final = (KEY, ENCODED, NAMESPACE, *WINDOW, ENTRY_KEY, "time", "window_end", "domain")
"""The columns that say what a row is of; what else it has may change."""

Change = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What one key, or entry of a key, has in one state, before and after.

    Attributes:
        change: added, removed or changed.
        uid: the operator.
        store: the state, as of ``StoredTable``.
        of: the key, and the window or the key of the entry, by the name of the column.
        before: the rows there were: the other columns, without expiry.
        after: those there are.

    Examples:
        >>> from headrace.state_processor import Difference
        >>> str(Difference("changed", "totals", "state/total", {"key": "a"}, [{"value": 1}], [{"value": 2}]))
        'changed totals state/total key=a: value=1 -> value=2'
    """

    change: Change
    uid: str
    store: str
    of: dict[str, Any]
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]

    def __str__(self) -> str:
        """One line."""
        sides = " -> ".join(_told(rows) for rows in (self.before, self.after) if rows or self.change == "changed")
        return f"{self.change} {self.uid} {self.store} {_of_row(self.of)}: {sides}"


def compare(before: SavepointReader, after: SavepointReader) -> Iterator[Difference]:
    """All that is different, state by state.

    Expiry does not count. A state is held in memory as Python objects while it is compared.

    Raises:
        InvalidTypeError: when one of them is no reader.
    """
    for reader in (before, after):
        if not hasattr(reader, "states"):
            raise refused(f"compare takes two readers: SavepointReader.read({shown(reader)})", InvalidTypeError)
    return _all_compared(before, after)


def _all_compared(before: SavepointReader, after: SavepointReader) -> Iterator[Difference]:
    there = [{(table.uid, table.store) for table in reader.states()} for reader in (before, after)]
    for uid, store in sorted(there[0] | there[1]):
        sides = [
            _rows(reader.read_table(uid, store)) if (uid, store) in known else {}
            for reader, known in zip((before, after), there, strict=True)
        ]
        yield from _compared(uid, store, *sides)


_Rows = dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]
"""By what rows are of, as a text: what they are of, and the rest of each."""


def _rows(table: pa.Table) -> _Rows:
    names = [name for name in table.column_names if name in _IDENTITY]
    rest = [name for name in table.column_names if name not in {*_IDENTITY, EXPIRY}]
    found: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        of = {name: row[name] for name in names if row[name] is not None or name == KEY}
        text = repr(of)
        grouped[text].append({name: row[name] for name in rest})
        found[text] = (of, grouped[text])
    return found


def _compared(uid: str, store: str, before: _Rows, after: _Rows) -> Iterator[Difference]:
    for text in sorted(before.keys() | after.keys()):
        was, now = before.get(text), after.get(text)
        if was is None and now is not None:
            yield Difference("added", uid, store, now[0], [], now[1])
        elif now is None and was is not None:
            yield Difference("removed", uid, store, was[0], was[1], [])
        elif was is not None and now is not None and repr(was[1]) != repr(now[1]):  # NaN is what it was
            yield Difference("changed", uid, store, now[0], was[1], now[1])


def _told(rows: list[dict[str, Any]]) -> str:
    return "; ".join(map(_of_row, rows)) or "nothing"


def _of_row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items()) or "there"
