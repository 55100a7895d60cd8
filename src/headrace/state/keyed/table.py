"""The base of all kinds of keyed state: their runs, reading many keys at once, writing what has changed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import StateMigrationError
from headrace.common.logs import get_logger
from headrace.common.typeinfo import Json, TypeInformation
from headrace.state.descriptors import StateDescriptor
from headrace.state.evolution import OTHER_UID, difference, evolve_run
from headrace.state.keyed.namespaces import KeyScope, StateScope
from headrace.state.keys import KeyColumn
from headrace.state.keys.codecs import Entries
from headrace.state.runs import ELEMENT_COUNT, HASH, SORT, Run, RunStore
from headrace.state.runs.layout import CLEAR, EXPIRY, KEY, KEY_ORDER, KIND, TTL, TYPES, VALUE
from headrace.state.runs.merge_input import aged, expires, follow
from headrace.state.runs.merging import merge_small_runs
from headrace.state.runs.run import find_rows, narrowed, order_of_keys
from headrace.state.ttl import TtlPolicy

Indices = npt.NDArray[np.int64]


logger = get_logger(__name__)

UNLOADED: Final[Any] = object()
"""Stands for an element that has not been read yet."""
_NAMESPACES: Final = "namespaces"
"""The metadata of a run about its namespaces; empty for states without any."""


@dataclass(frozen=True, slots=True)
class RunMatch:
    """Rows of one run that belong to some of the keys that are read.

    Attributes:
        run: the run.
        positions: which of the keys.
        rows: the row of each in the run's section.
    """

    run: Run
    positions: Indices
    rows: Indices

    def column(self, name: str) -> pa.Array:
        """The values of the rows in one column."""
        return self.run.section.take(name, self.rows)

    @property
    def expires(self) -> bool:
        """Return whether the run says when its elements expire."""
        return expires(self.run)


class StateTable:
    """The stored side of one keyed state.

    Args:
        store: its runs.
        descriptor: what the program says about it.
        keys: how the keys are stored that it is kept by, as JSON.
        times: says what time it is.

    Attributes:
        ttl: when elements expire; None when they do not.

    Raises:
        StateMigrationError: when what is stored does not fit the descriptor or the key's type.
    """

    def __init__(self, store: RunStore, descriptor: StateDescriptor, keys: Json, times: KeyScope) -> None:
        self.store = store
        self._times = times
        self.ttl: TtlPolicy | None = descriptor.ttl
        self._meta = meta_of(descriptor, keys)
        for run in store.runs:
            self._check(run.meta, descriptor)
            evolve(store, run, descriptor)
        follow(store, None if self.ttl is None else self.ttl.scale)

    def _check(self, stored: dict[str, Any], descriptor: StateDescriptor) -> None:
        if stored.get(KIND) != self._meta[KIND]:
            found = difference(stored.get(KIND), self._meta[KIND])
            raise StateMigrationError(f"{descriptor.label} was stored with another kind: {found}; {descriptor.advice}")
        check_keys(stored, self._meta["keys"], descriptor.label, descriptor.advice_on_keys)
        if stored.get(_NAMESPACES, descriptor.namespaces) != descriptor.namespaces:
            raise StateMigrationError(
                f"{descriptor.label} was stored for {stored[_NAMESPACES]}, and is declared for "
                f"{descriptor.namespaces}; {descriptor.advice}"
            )

    def find(self, keys: KeyColumn, stops: Callable[[RunMatch], npt.NDArray[np.bool_]] | None = None) -> list[RunMatch]:
        """Return where the keys are in the runs, oldest run first.

        Runs are searched from the newest to the oldest; a key is not searched for in older runs than one in which
        ``stops`` is true for its row (by default, in which it was found).
        """
        order = order_of_keys(keys)
        remaining = keys.take(order)
        matches = []
        for whole in reversed(self.store.runs):
            if not len(order):
                break
            run = narrowed(whole, remaining)
            found, rows = find_rows(run, remaining)
            if not len(found):
                continue
            match = RunMatch(run, order[found], rows)
            matches.append(match)
            keep = np.ones(len(order), dtype=bool)
            keep[found if stops is None else found[stops(match)]] = False
            remaining, order = remaining.take(np.flatnonzero(keep)), order[keep]
        return matches[::-1]

    def append(self, keys: KeyColumn, columns: dict[str, pa.Array], more_meta: dict[str, Any] | None = None) -> None:
        """Writes a run of rows that are sorted by key already."""
        arrays = {HASH: pa.array(keys.hashes), KEY: keys.values, **columns}
        batch = pa.RecordBatch.from_pydict(arrays)
        self.store.append(batch, aged({**self._meta, **(more_meta or {})}, batch))

    @property
    def now(self) -> int:
        """Return what time it is, in the time that elements age in."""
        in_event_time = self.ttl is not None and self.ttl.is_in_event_time
        return self._times.event_time if in_event_time else self._times.clock

    def merge_small_runs(self) -> None:
        """Merges runs when they have piled up; bounded work."""
        merge_small_runs(self.store, self.now)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is stored for any key."""
        return not self.store.runs


@dataclass(frozen=True, slots=True)
class Elements:
    """The conversion of a state's elements to columns and back.

    With a time to live an element is kept in memory as a pair of value and expiry (None for one that was stored before
    the state had a time to live, or while elements aged in another time), else as the value itself.
    """

    type: TypeInformation
    expires: bool

    def to_columns(self, elements: Sequence[Any]) -> dict[str, pa.Array]:
        """The columns of the elements; None, or a pair with None in front, is null."""
        if not self.expires:
            return {VALUE: values_to_array(self.type, elements)}
        values = [None if element is None else element[0] for element in elements]
        expiries = [None if element is None else element[1] for element in elements]
        return {VALUE: values_to_array(self.type, values), EXPIRY: pa.array(expiries, pa.int64())}

    def from_columns(self, values: pa.Array, expiries: pa.Array | None) -> list[Any]:
        """The elements of columns; a null without expiry is None."""
        elements = array_to_values(self.type, values)
        if not self.expires:
            return elements
        times = [None] * len(elements) if expiries is None else expiries.to_pylist()
        pairs = zip(elements, times, strict=True)
        return [None if value is None and expiry is None else (value, expiry) for value, expiry in pairs]


def check_keys(stored: Mapping[str, Any], keys: Json, label: str, advice: str = OTHER_UID) -> None:
    """Refuse a state that was stored for keys of another type.

    Args:
        stored: what a run of it says about itself.
        keys: how keys are stored now, as JSON.
        label: what errors call the state.
        advice: what they say is to be done.

    Raises:
        StateMigrationError: with both types.
    """
    if stored.get("keys") != keys:
        found = difference(stored.get("keys"), keys)
        raise StateMigrationError(f"{label} was stored with another key type: {found}; {advice}")


def meta_of(descriptor: StateDescriptor, keys: Json) -> dict[str, Any]:
    """Return what the runs of a state say about themselves, whatever their rows are.

    Args:
        descriptor: what the program says about the state.
        keys: how the keys are stored that it is kept by, as JSON.
    """
    meta: dict[str, Any] = {KIND: descriptor.kind, SORT: KEY_ORDER, TYPES: descriptor.stored_types(), "keys": keys}
    if descriptor.namespaces is not None:
        meta[_NAMESPACES] = descriptor.namespaces
    if descriptor.ttl is not None:
        meta[TTL] = descriptor.ttl.scale
    return meta


def evolve(store: RunStore, run: Run, descriptor: StateDescriptor) -> None:
    """Rewrites a run with values of an earlier type, once.

    Raises:
        StateMigrationError: when the values cannot be taken over.
    """
    change = descriptor.evolution_of(run.meta[TYPES])
    if change is not None:
        logger.info("%s: what was stored becomes what is declared: %s", descriptor.label, change)
        evolve_run(store, run, change, descriptor.stored_types())


def changed_keys(entries: Entries[Any], ordinals: Indices) -> tuple[KeyColumn, Indices]:
    """The keys with these ordinals, sorted, and the ordinals in that order."""
    keys = entries.take(ordinals)
    order = order_of_keys(keys)
    return keys.take(order), ordinals[order]


def gathered(parts: list[tuple[Indices, pa.Array]], count: int) -> pa.Array | None:
    """One array of ``count`` values from parts that say where their values go; null where none does."""
    if not parts:
        return None
    place = np.full(count, -1, dtype=np.int64)
    start = 0
    for positions, array in parts:
        place[positions] = np.arange(start, start + len(array))
        start += len(array)
    whole = pa.concat_arrays([array for _, array in parts])
    return whole.take(pa.array(place, mask=place < 0))


def is_cleared(match: RunMatch) -> npt.NDArray[np.bool_]:
    """Return which of the found rows make everything older void."""
    return np.asarray(match.column(CLEAR)).astype(bool)


def flat(match: RunMatch, column: str) -> pa.Array:
    """The elements of all found rows in one list column, one after the other."""
    return match.column(column).flatten()


def segments(match: RunMatch, column: str) -> Iterator[tuple[int, int, int]]:
    """For each found row which of the keys it belongs to, and where its elements are within what :func:`flat` gives."""
    lengths = match.column(column).value_lengths().to_numpy()
    stops = np.cumsum(lengths)
    return zip(match.positions.tolist(), (stops - lengths).tolist(), stops.tolist(), strict=True)


class ElementCells:
    """One element per key: what is stored for it, and what it is now.

    ``now[ordinal]`` and ``stored[ordinal]`` are the same object as long as nothing has changed; so reading and writing
    need no bookkeeping. Both grow when a key beyond their end is met, and are filled by :meth:`load` for all keys that
    were met since it was last called.

    Args:
        scope: whose keys these are.
        table: the stored side.
        type_: the type of the elements.
    """

    __slots__ = ("_elements", "_loaded", "_scope", "now", "stored", "table")

    def __init__(self, scope: StateScope, table: StateTable, type_: TypeInformation) -> None:
        self._scope = scope
        self.table = table
        self._elements = Elements(type_, table.ttl is not None)
        self.now: list[Any] = []
        self.stored: list[Any] = []
        self._loaded = 0

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        # The lists stay the same objects: the states hold them.
        self.now.clear()
        self.stored.clear()
        self._loaded = 0

    def grow(self) -> None:
        """Makes room for all keys that were met."""
        missing = [UNLOADED] * (len(self._scope.entries.all) - len(self.now))
        self.now.extend(missing)
        self.stored.extend(missing)

    def load(self, ordinal: int) -> Any:
        """The element of a key that has not been read yet; reads those of all keys met since the last call."""
        self.grow()
        start, stop = self._loaded, len(self.now)
        self._loaded = stop
        elements = self._read(start, stop)
        self.stored[start:stop] = elements
        written = self.now[start:stop]
        self.now[start:stop] = [new if old is UNLOADED else old for old, new in zip(written, elements, strict=True)]
        return self.now[ordinal]

    def _read(self, start: int, stop: int) -> list[Any]:
        if self.table.is_empty:
            return [None] * (stop - start)
        matches = self.table.find(self._scope.entries.columns(start, stop))
        values = gathered([(match.positions, match.column(VALUE)) for match in matches], stop - start)
        if values is None:
            return [None] * (stop - start)
        expiries = None
        if self._elements.expires:
            parts = [(match.positions, match.column(EXPIRY)) for match in matches if match.expires]
            expiries = gathered(parts, stop - start)
        return self._elements.from_columns(values, expiries)

    def read(self) -> Any:
        """The value of the current key, which is not to be changed; None when there is none (any more)."""
        ordinal = self._scope.current.ordinal
        try:
            element = self.now[ordinal]
        except IndexError:
            element = UNLOADED
        if element is UNLOADED:
            element = self.load(ordinal)
        ttl = self.table.ttl
        return element if element is None or ttl is None else self._touch(ordinal, element, ttl)

    def _touch(self, ordinal: int, element: tuple[Any, int | None], ttl: TtlPolicy) -> Any:
        """The value of an element that may expire, and is read: it goes when it has, or its life is prolonged."""
        now = self.table.now
        value, expiry = element
        if expiry is not None and expiry <= now:
            self.now[ordinal] = None
            return value if ttl.return_expired else None
        if ttl.on_read and expiry != ttl.expiry(now):
            self.now[ordinal] = (value, ttl.expiry(now))
        return value

    def end_epoch(self) -> None:
        """Writes the elements that have changed; None is a tombstone."""
        changed = np.fromiter(map(is_not, self.now, self.stored), dtype=bool, count=len(self.now))
        ordinals = np.flatnonzero(changed)
        if len(ordinals):
            keys, ordinals = changed_keys(self._scope.entries, ordinals)
            elements = list(map(self.now.__getitem__, ordinals.tolist()))
            if self.table.is_empty:  # nothing is there that a tombstone could hide
                kept = np.fromiter((item is not None for item in elements), dtype=bool, count=len(elements))
                if not kept.all():
                    keys, elements = keys.take(np.flatnonzero(kept)), [item for item in elements if item is not None]
            self.table.append(keys, self._elements.to_columns(elements))
        self.table.merge_small_runs()


class Cell(Protocol):
    """The in-memory elements of one key, for a state with several elements per key.

    Attributes:
        cleared: whether everything that is stored is void.
        is_read: whether it has been given what is stored.
    """

    cleared: bool
    is_read: bool

    @property
    def is_changed(self) -> bool:
        """Return whether there is something to be written."""

    @property
    def is_empty(self) -> bool:
        """Return whether what is to be written only takes away."""


C = TypeVar("C", bound=Cell)


class NestedCells(Generic[C]):
    """The cells in memory of a state with several elements per key: one for each key, made when it is needed.

    Args:
        scope: whose keys these are.
        table: the stored side.
        make: makes an empty cell.
        read: takes from the rows that were found what the cells of keys need.
        write: makes the list columns of what has changed in cells, and says how many elements they have.
    """

    def __init__(
        self,
        scope: StateScope,
        table: StateTable,
        make: Callable[[], C],
        read: Callable[[list[RunMatch], list[C]], None],
        write: Callable[[list[C]], tuple[dict[str, pa.Array], int]],
    ) -> None:
        self._scope = scope
        self._make = make
        self._fill = read
        self._write = write
        self._cells: list[C | None] = []
        self._loaded = 0
        self.table = table

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.clear()
        self._loaded = 0

    def current(self) -> C:
        """The cell of the current key; what is stored for the key need not have been read."""
        ordinal: int = self._scope.current.ordinal
        try:
            cell = self._cells[ordinal]
        except IndexError:
            self._cells.extend([None] * (len(self._scope.entries.all) - len(self._cells)))
            cell = None
        if cell is None:
            cell = self._cells[ordinal] = self._make()
        return cell

    def read(self) -> C:
        """The cell of the current key, after ``read`` has seen it; lets it see all keys met since the last time."""
        cell = self.current()
        if not cell.is_read:
            self._read_all()
        return cell

    def _read_all(self) -> None:
        start, stop = self._loaded, len(self._cells)
        self._loaded = stop
        cells = [cell if cell is not None else self._make() for cell in self._cells[start:stop]]
        self._cells[start:stop] = cells
        # Every cell is filled, so that the state of a key is read at most once in an epoch.
        matches = []
        if not self.table.is_empty:
            matches = self.table.find(self._scope.entries.columns(start, stop), is_cleared)
        self._fill(matches, cells)
        for cell in cells:
            cell.is_read = True

    def end_epoch(self) -> None:
        """Writes what has changed, and where older elements are void."""
        changed = {number: cell for number, cell in enumerate(self._cells) if cell is not None and cell.is_changed}
        if self.table.is_empty:  # nothing is there that an empty cell could hide
            changed = {number: cell for number, cell in changed.items() if not cell.is_empty}
        if changed:
            keys, ordinals = changed_keys(self._scope.entries, np.array([*changed], dtype=np.int64))
            cells = [changed[ordinal] for ordinal in ordinals.tolist()]
            lists, count = self._write(cells)
            cleared = pa.array([cell.cleared for cell in cells], pa.bool_())
            self.table.append(keys, {CLEAR: cleared, **lists}, {ELEMENT_COUNT: count})
        self.table.merge_small_runs()
