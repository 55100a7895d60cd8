"""What the kinds of keyed state have in common: their runs, reading many keys at once, writing what has changed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import StateMigrationError
from headrace.common.logs import get_logger
from headrace.common.typeinfo import Json, TypeInformation
from headrace.state.descriptors import StateDescriptor
from headrace.state.evolution import OTHER_UID, difference, evolve_run
from headrace.state.keyed.namespaces import Entries, StateScope
from headrace.state.keys import KeyColumn
from headrace.state.runs import HASH, SORT, Run, RunStore
from headrace.state.runs.layout import CLEAR, EXPIRY, KEY, KEY_ORDER, KIND, TTL, TYPES, VALUE
from headrace.state.runs.merge_input import aged, expires, follow
from headrace.state.runs.merging import merge_small_runs
from headrace.state.runs.run import find_rows, narrowed, order_of_keys
from headrace.state.ttl import TtlPolicy

Indices = npt.NDArray[np.int64]


logger = get_logger(__name__)

_NAMESPACES: Final = "namespaces"
"""What a run says about its namespaces; nothing where it was stored by earlier versions, or does not matter."""


@dataclass(frozen=True, slots=True)
class Match:
    """Rows of one run that belong to some of the keys that were asked for.

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
        """Whether the run says when its elements expire."""
        return expires(self.run)


class StateTable:
    """The stored side of one keyed state.

    Args:
        store: its runs.
        descriptor: what the program says about it.
        keys: how the keys are stored that it is kept by, as JSON.

    Raises:
        StateMigrationError: when what is stored does not fit the descriptor or the key's type.
    """

    def __init__(self, store: RunStore, descriptor: StateDescriptor, keys: Json) -> None:
        self.store = store
        self.ttl: TtlPolicy | None = descriptor.ttl
        self._meta = meta_of(descriptor, keys)
        for run in store.runs:
            self._check(run.meta, descriptor)
            evolve(store, run, descriptor)
        follow(store, None if self.ttl is None else self.ttl.scale)

    def _check(self, stored: dict[str, Any], descriptor: StateDescriptor) -> None:
        if stored.get(KIND) != self._meta[KIND]:
            told = difference(stored.get(KIND), self._meta[KIND])
            raise StateMigrationError(f"{descriptor.label} was stored with another kind: {told}; {descriptor.advice}")
        check_keys(stored, self._meta["keys"], descriptor.label, descriptor.advice_on_keys)
        if stored.get(_NAMESPACES, descriptor.namespaces) != descriptor.namespaces:
            raise StateMigrationError(
                f"{descriptor.label} was stored for {stored[_NAMESPACES]}, and is declared for "
                f"{descriptor.namespaces}; {descriptor.advice}"
            )

    def find(self, keys: KeyColumn, stops: Callable[[Match], npt.NDArray[np.bool_]] | None = None) -> list[Match]:
        """Where the keys are in the runs, oldest run first.

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
            match = Match(run, order[found], rows)
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

    def now(self, scope: StateScope) -> int:
        """What time it is, in the time that elements age in."""
        return scope.event_time if self.ttl is not None and self.ttl.is_in_event_time else scope.clock

    def merge_small_runs(self, scope: StateScope) -> None:
        """Merges runs when they have piled up; bounded work."""
        merge_small_runs(self.store, self.now(scope))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is stored for any key."""
        return not self.store.runs


@dataclass(frozen=True, slots=True)
class Elements:
    """How the elements of a state become columns and back.

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
        told = difference(stored.get("keys"), keys)
        raise StateMigrationError(f"{label} was stored with another key type: {told}; {advice}")


def meta_of(descriptor: StateDescriptor, keys: Json) -> dict[str, Any]:
    """What the runs of a state say about themselves, whatever their rows are.

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


def changed_keys(entries: Entries, ordinals: Indices) -> tuple[KeyColumn, Indices]:
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


def is_cleared(match: Match) -> npt.NDArray[np.bool_]:
    """Which of the found rows make everything older void."""
    return np.asarray(match.column(CLEAR)).astype(bool)


def flat(match: Match, column: str) -> pa.Array:
    """The elements of all found rows in one list column, one after the other."""
    return match.column(column).flatten()


def segments(match: Match, column: str) -> Iterator[tuple[int, int, int]]:
    """For each found row which of the keys it belongs to, and where its elements are within what :func:`flat` gives."""
    lengths = match.column(column).value_lengths().to_numpy()
    stops = np.cumsum(lengths)
    return zip(match.positions.tolist(), (stops - lengths).tolist(), stops.tolist(), strict=True)


class NestedCells:
    """What is in memory for each key of a state with several elements per key: one cell, made when it is needed.

    Args:
        scope: whose keys these are.
        table: the stored side.
        make: makes an empty cell. Cells have the attributes ``is_read`` and ``is_changed``.
        read: takes from the rows that were found what the cells of keys need.
    """

    def __init__(
        self,
        scope: StateScope,
        table: StateTable,
        make: Callable[[], Any],
        read: Callable[[list[Match], list[Any]], None],
    ) -> None:
        self._scope = scope
        self._make = make
        self._fill = read
        self._cells: list[Any] = []
        self._loaded = 0
        self.table = table

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.clear()
        self._loaded = 0

    def current(self) -> Any:
        """The cell of the current key; what is stored for the key need not have been read."""
        ordinal = self._scope.current.ordinal
        try:
            cell = self._cells[ordinal]
        except IndexError:
            self._cells.extend([None] * (len(self._scope.entries.all) - len(self._cells)))
            cell = None
        if cell is None:
            cell = self._cells[ordinal] = self._make()
        return cell

    def read(self) -> Any:
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

    def changed(self) -> tuple[Any, list[Any]] | None:
        """The keys whose cells have changed, sorted, and their cells; None when there are none."""
        found = [ordinal for ordinal, cell in enumerate(self._cells) if cell is not None and cell.is_changed]
        if self.table.is_empty:  # nothing is there that an empty cell could hide
            found = [ordinal for ordinal in found if not self._cells[ordinal].is_empty]
        if not found:
            return None
        keys, ordinals = changed_keys(self._scope.entries, np.array(found, dtype=np.int64))
        return keys, [self._cells[ordinal] for ordinal in ordinals.tolist()]
