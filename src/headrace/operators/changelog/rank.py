"""The first rows of each key in an order (Top-N), with the changes that each record makes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import codes_of, fixed_width
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Arrived,
    Changes,
    KeyedChangesOperator,
)
from headrace.operators.changelog.lifetimes import Lifetimes, RowsInOrder
from headrace.operators.changelog.order import RankRange, SortField, order_codes, places_in_order, places_of
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order by which rows are ranked, and the ranks to emit.

    Attributes:
        order: the sort fields; rows with equal values stay in the order of arrival.
        ranks: the ranks to emit.
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
        unique_key: the positions of the key columns by which a new row replaces the one before; empty where records are
            retracted, and all rows are stored then, since any may move up.
    """

    order: tuple[SortField, ...]
    ranks: RankRange
    update_before: bool
    unique_key: tuple[int, ...] = ()


class RankOperator(KeyedChangesOperator):
    """Keeps rows of each key in an order, and emits the changes of the first of them.

    If the rank is a column, each rank whose row is another one changes, from the first down. If not, a row that enters
    is inserted, after the row that it displaces is deleted; where only one row is kept, that is an update.

    Args:
        input_type: the type of the records.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        ranking: the order and the ranks.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "ranked-rows", "the ranked rows of keys"

    def __init__(
        self,
        input_type: TypeInformation,
        output_type: TypeInformation,
        codec: KeyCodec,
        ranking: Ranking,
        *,
        ttl: int = 0,
    ) -> None:
        super().__init__(input_type, output_type, codec, ttl=ttl)
        self._order, self._ranks, self._update_before = ranking.order, ranking.ranks, ranking.update_before
        self._unique_key = ranking.unique_key

    def _limits(self, arrived: Arrived) -> Longs:
        """The last rank of each key."""
        if self._ranks.end_field is None:
            return np.full(len(arrived.keys), self._ranks.end, np.int64)
        firsts = arrived.sequence[arrived.segments.starts]
        column = arrived.rows.column(self._ranks.end_field).cast(pa.int64()).fill_null(0)
        limits: Longs = fixed_width(column)[firsts].astype(np.int64)
        return limits

    def _shown(self, rows: Longs, kinds: npt.NDArray[np.int8], records: Longs, ranks: Longs) -> Changes:
        keep = (ranks >= self._ranks.start) & (records >= 0)
        if not self._update_before:
            keep &= kinds != UPDATE_BEFORE
        numbers = (ranks[keep],) if self._ranks.shows_rank else ()
        return Changes(rows[keep], kinds[keep], records[keep], numbers)


class AppendRankOperator(RankOperator):
    """Ranks append-only input: no more rows are stored than ranks are emitted.

    Each rank holds the best row that has reached it. A record meets the first rank; the worse of it and the row there
    goes on to the next one. So what a rank holds after each record is a running minimum, and all records of all keys
    pass one rank at a time.
    """

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        segments, limits = arrived.segments, self._limits(arrived)
        codes = (code[arrived.sequence] for code in order_codes(arrived.rows, self._order))
        order = in_order(segments.ids, *codes)
        by_place = arrived.sequence[order]
        is_left = np.arange(segments.total) - segments.starts[segments.ids] < limits[segments.ids]
        passing = self._passing(arrived, places_of(order), limits)
        found = self._by_rank(passing, by_place) if self._ranks.by_rank else self._by_rows(passing, by_place)
        return found, by_place[is_left]

    def _passing(self, arrived: Arrived, places: Longs, limits: Longs) -> _PassingRows:
        """The rows before the first rank, without those behind the last rank of a key that has as many stored."""
        segments, of_keys = arrived.segments, arrived.of_keys
        held = np.bincount(arrived.stored.of_keys, minlength=len(segments))
        is_full = (held >= limits) & (limits > 0)
        last = np.full(len(segments), segments.total)
        last[is_full] = places[segments.starts[is_full] + limits[is_full] - 1]
        passes = (limits[of_keys] > 0) & (places <= last[of_keys])
        is_free = segments.counts <= limits if not self._ranks.by_rank else np.zeros(len(segments), np.bool_)
        records = arrived.sequence - len(arrived.stored)
        passing = _PassingRows(places, records, of_keys, limits, segments.total)
        passing.enter(passes & is_free[of_keys])
        passing.begin(passes & ~is_free[of_keys])
        return passing

    def _by_rank(self, passing: _PassingRows, by_place: Longs) -> Changes:
        changes = [Changes(_EMPTY, _EMPTY.astype(np.int8), _EMPTY, (_EMPTY,) if self._ranks.shows_rank else ())]
        while len(passing.values):
            changes.append(self._of_rank(passing, by_place))
            passing.go_on()
        found = Changes.concat(changes)  # in the order of ranks already, and of what comes before and after
        return found.take(in_order(found.records))

    def _of_rank(self, passing: _PassingRows, by_place: Longs) -> Changes:
        changed = np.flatnonzero((passing.held != passing.before) & (passing.records >= 0))
        before, after, records = passing.before[changed], passing.held[changed], passing.records[changed]
        has_before = before != passing.nothing
        rows = np.concatenate((by_place[before[has_before]], by_place[after]))
        kinds = np.concatenate((np.full(has_before.sum(), UPDATE_BEFORE), np.where(has_before, UPDATE_AFTER, INSERT)))
        whole = np.concatenate((records[has_before], records))
        return self._shown(rows, kinds, whole, np.full(len(rows), passing.rank + 1))

    def _by_rows(self, passing: _PassingRows, by_place: Longs) -> Changes:
        """Inserts of the rows that enter the first ranks, and retractions of those that leave them."""
        while len(passing.values):
            passing.go_on()
        came, out = np.concatenate(passing.came), np.concatenate(passing.out)
        records = np.concatenate(passing.passed)
        enters = (came != out) & (records >= 0)
        came, out, records = came[enters], out[enters], records[enters]
        drives = out != passing.nothing
        is_single = self._ranks.end == 1
        rows = np.concatenate((by_place[out[drives]], by_place[came]))
        entry = np.where(drives, UPDATE_AFTER, INSERT) if is_single else np.full(len(came), INSERT)
        kinds = np.concatenate((np.full(drives.sum(), UPDATE_BEFORE if is_single else DELETE), entry))
        whole = np.concatenate((records[drives], records))
        order = in_order(whole)
        return self._shown(rows[order], kinds[order], whole[order], np.full(len(rows), self._ranks.start))


@dataclass
class _PassingRows:
    """Rows that pass a rank, by their positions in the order.

    Attributes:
        values: the rows that reach the rank, key by key.
        records: the record that causes each to pass; negative for stored rows.
        of_keys: the key of each.
        limits: the last rank of each key.
        nothing: the position that stands for no row.
        rank: the rank, from 0.
        own: the position of the record that each row is of.
        held: the best row that has reached the rank, after each row.
        before: the best row before that.
    """

    values: Longs
    records: Longs
    of_keys: Longs
    limits: Longs
    nothing: int
    rank: int = 0
    own: Longs = field(init=False)
    held: Longs = field(init=False)
    before: Longs = field(init=False)
    came: list[Longs] = field(default_factory=list)
    out: list[Longs] = field(default_factory=list)
    passed: list[Longs] = field(default_factory=list)

    def enter(self, some: Mask) -> None:
        """Notes rows that enter and displace none."""
        self.came.append(self.values[some])
        self.out.append(np.full(len(self.came[-1]), self.nothing))
        self.passed.append(self.records[some])

    def begin(self, some: Mask) -> None:
        """Start with the rows that reach the first rank."""
        self.own = self.values
        self._keep(some)
        self._meet()

    def go_on(self) -> None:
        """The worse of each record and what was at the rank goes on to the next one."""
        self.values = np.maximum(self.before, self.values)
        self.rank += 1
        goes_on = (self.values != self.nothing) & (self.limits[self.of_keys] > self.rank)
        stops = ~goes_on
        self.came.append(self.own[stops])
        self.out.append(self.values[stops])
        self.passed.append(self.records[stops])
        self._keep(goes_on)
        self._meet()

    def _keep(self, some: Mask) -> None:
        self.values, self.own = self.values[some], self.own[some]
        self.records, self.of_keys = self.records[some], self.of_keys[some]

    def _meet(self) -> None:
        # Each key lies below all values of the one before it, so that one pass finds the running minimum of each.
        step = (self.nothing + 1) * self.of_keys
        self.held = np.minimum.accumulate(self.values - step) + step
        self.before = np.empty_like(self.held)
        self.before[1:] = self.held[:-1]
        self.before[np.diff(self.of_keys, prepend=-1) != 0] = self.nothing


class RetractRankOperator(RankOperator):
    """Ranks input with retractions: all rows are stored, since any may move up.

    The rows before each record are those that have begun before it and are not retracted yet. Their places in the order
    are looked up by rank for all records at once.
    """

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        segments, sequence = arrived.segments, arrived.sequence
        order = in_order(segments.ids, *(code[sequence] for code in order_codes(arrived.rows, self._order)))
        lifetimes = Lifetimes.of(arrived, range(arrived.rows.num_columns))
        places = places_of(order)
        places[lifetimes.retracts] = places[lifetimes.taken[lifetimes.retracts]]
        records = sequence - len(arrived.stored)
        some = np.flatnonzero((lifetimes.steps != 0) & (records >= 0))
        ranking = _Ranked.of(lifetimes, places, self._limits(arrived), some)
        rows, kinds, positions, ranks = ranking.by_rank() if self._ranks.by_rank else ranking.by_rows()
        found = self._shown(sequence[order[rows]], kinds, records[positions], ranks)
        left = np.zeros(len(order), np.bool_)
        left[places[lifetimes.left]] = True
        return found.take(in_order(found.records)), sequence[order[left]]


_Emitted = tuple[Longs, npt.NDArray[np.int8], Longs, Longs]
"""The places of rows to emit, their kinds, the positions of the records that cause them, and ranks."""


@dataclass(frozen=True)
class _Ranked:
    """Records that add or retract a row among the first of their key.

    Attributes:
        rows: the rows that are there, in order.
        positions: the position of each record.
        places: the place of the row.
        adds: whether it adds it.
        counts: the number of rows before it.
        limits: the last rank.
        others: the place of the row that leaves the first ranks, or moves up into them; -1 where there is none.
    """

    rows: RowsInOrder
    positions: Longs
    places: Longs
    adds: Mask
    counts: Longs
    limits: Longs
    others: Longs

    @staticmethod
    def of(lifetimes: Lifetimes, places: Longs, limits: Longs, positions: Longs) -> _Ranked:
        """The records at some positions that change the first ranks.

        Args:
            lifetimes: the lifetimes of rows.
            places: the place of the row that is added or retracted at each position.
            limits: the last rank of each key.
            positions: the positions of records.
        """
        rows, steps = RowsInOrder(lifetimes.segments, places, lifetimes.steps), lifetimes.steps[positions]
        limits = limits[lifetimes.segments.ids[positions]]
        counts, adds = lifetimes.counts[positions] - steps, steps > 0
        ranks = np.where(adds, limits - 1, limits)
        has_other = np.flatnonzero((counts > ranks) & (limits > 0))
        others = np.full(len(positions), -1)
        others[has_other] = rows.at(positions[has_other], ranks[has_other])
        own = places[positions]
        some = np.flatnonzero((limits > 0) & ((others < 0) | (own < others)))
        return _Ranked(rows, positions[some], own[some], adds[some], counts[some], limits[some], others[some])

    def by_rows(self) -> _Emitted:
        """Rows that leave the first ranks, then those that enter them."""
        has_other = self.others >= 0
        out, into = np.where(self.adds, self.others, self.places), np.where(self.adds, self.places, self.others)
        parts = [(out, DELETE, has_other | ~self.adds), (into, INSERT, has_other | self.adds)]
        rows = np.concatenate([places[some] for places, _, some in parts])
        kinds = np.concatenate([np.full(int(some.sum()), kind) for _, kind, some in parts])
        positions = np.concatenate([self.positions[some] for _, _, some in parts])
        return rows, kinds, positions, np.full(len(rows), _LAST_RANK)

    def by_rank(self) -> _Emitted:
        """Return what each rank had and has, from the one of the row down."""
        first = self.rows.before(self.positions, self.places)
        stops = np.minimum(np.where(self.adds, self.counts + 1, self.counts), self.limits)
        of_records = np.repeat(np.arange(len(first)), stops - first)
        ranks = np.arange(len(of_records)) - np.repeat(np.cumsum(stops - first) - stops, stops - first)
        had = np.flatnonzero(ranks < self.counts[of_records])
        before, after = np.full((2, len(ranks)), -1)
        before[had] = self.rows.at(self.positions[of_records[had]], ranks[had])
        adds = self.adds[of_records]
        ends = np.cumsum(stops - first) - 1
        after[1:][adds[1:]] = before[:-1][adds[1:]]
        after[:-1][~adds[:-1]] = before[1:][~adds[:-1]]
        after[ends[~self.adds]] = self.others[~self.adds]
        after[(ends - (stops - first) + 1)[self.adds]] = self.places[self.adds]
        had_row, has_row = before >= 0, after >= 0
        kinds = np.where(has_row, UPDATE_BEFORE, DELETE), np.where(had_row, UPDATE_AFTER, INSERT)
        some = np.stack((had_row, has_row), axis=1).ravel()
        places, kinds_of = (np.stack(pair, axis=1).ravel()[some] for pair in ((before, after), kinds))
        positions, numbers = (np.repeat(each, 2)[some] for each in (self.positions[of_records], ranks + 1))
        return places, kinds_of, positions, numbers


class UpdateRankOperator(RankOperator):
    """Ranks input whose rows move up only, with as many rows stored as ranks are emitted.

    It goes from record to record, over positions in the order rather than values: a row that has left the first ranks
    is forgotten, so what is there depends on all before.
    """

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        places = places_in_order(arrived.rows, self._order)
        found = _Found(by_rank=self._ranks.by_rank)
        left: list[int] = []
        identities = self._identities(arrived).tolist()
        sequence, limits = arrived.sequence.tolist(), self._limits(arrived).tolist()
        starts = [*arrived.segments.starts.tolist(), len(sequence)]
        takes_back, stored, all_places = arrived.takes_back.tolist(), len(arrived.stored), places.tolist()
        for key, limit in enumerate(limits):
            ranked = _FirstRows(limit, found)
            for row in sequence[starts[key] : starts[key + 1]]:
                found.record = row - stored
                if row >= stored and takes_back[row - stored]:
                    ranked.remove(identities[row])
                else:
                    ranked.add(all_places[row], identities[row])
            left += ranked.remembered()
        by_place = np.empty(len(places), np.int64)
        by_place[places] = np.arange(len(places))
        return self._changes(found, by_place), by_place[np.array(left, np.int64)]

    def _changes(self, found: _Found, by_place: Longs) -> Changes:
        table = np.array(found.changes, np.int64).reshape(-1, 4)
        rows, kinds, records, ranks = table.T
        made = self._shown(by_place[rows], kinds.astype(np.int8), records, ranks)
        return made.take(np.argsort(made.records, kind="stable"))

    def _identities(self, arrived: Arrived) -> Longs:
        """A number for each row; a record updates or deletes the row with its number."""
        rows = arrived.rows
        columns = [rows.column(index) for index in self._unique_key]
        return codes_of(pa.StructArray.from_arrays(columns, [str(place) for place in range(len(columns))]))


@dataclass
class _Found:
    """Changes that a ranking emits: position of the row, kind, record and rank of each."""

    by_rank: bool
    record: int = -1
    changes: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, place: int, kind: np.int8, rank: int) -> None:
        """Adds a change."""
        self.changes.append((place, int(kind), self.record, rank))


class _FirstRows:
    """The first rows of one key in order, by their positions."""

    def __init__(self, limit: int, found: _Found) -> None:
        self._limit, self._found = limit, found
        self._places: list[int] = []
        self._of_identity: dict[int, list[int]] = {}

    def add(self, place: int, identity: int) -> None:
        """Inserts a row, in place of the one with its unique key."""
        before = self._places[: self._limit + 1]
        known = self._of_identity.setdefault(identity, [])
        old = known.pop() if known else None
        if old is not None and not self._take(old):
            old = None  # it was displaced before
        index = bisect_left(self._places, place)
        self._places.insert(index, place)
        known.append(place)
        del self._places[self._limit :]
        self._emit(before, index, place, old)

    def remove(self, identity: int) -> None:
        """Removes a row; an unknown one is ignored."""
        known = self._of_identity.get(identity)
        if not known:
            return
        place = known.pop(0)
        before = self._places[: self._limit + 1]
        index = bisect_left(self._places, place)
        if self._take(place):
            self._emit(before, index, None, place)

    def _take(self, place: int) -> bool:
        index = bisect_left(self._places, place)
        is_there = index < len(self._places) and self._places[index] == place
        if is_there:
            del self._places[index]
        return is_there

    def remembered(self) -> list[int]:
        """The rows to store, in order."""
        return self._places

    def _emit(self, before: list[int], index: int, came: int | None, went: int | None) -> None:
        if self._found.record < 0 or (index >= self._limit and (went is None or went not in before[: self._limit])):
            return
        if self._found.by_rank:
            self._emit_ranks(before[: self._limit], self._places[: self._limit], went)
        else:
            self._emit_rows(before[: self._limit], self._places[: self._limit], came, went)

    def _emit_ranks(self, before: list[int], after: list[int], went: int | None) -> None:
        changes: list[tuple[int, np.int8, int]] = []
        for rank in range(max(len(before), len(after))):
            old = before[rank] if rank < len(before) else None
            new = after[rank] if rank < len(after) else None
            if old == new:
                continue
            if old is not None:
                changes.append((old, DELETE if new is None else UPDATE_BEFORE, rank + 1))
            if new is not None:
                changes.append((new, INSERT if old is None else UPDATE_AFTER, rank + 1))
        if len(changes) > 2:
            # A row that moves up is retracted from its old rank before it is emitted at its new one.
            place = next((at for at, (row, kind, _) in enumerate(changes) if row == went and kind == UPDATE_BEFORE), 0)
            if place:
                changes.insert(1, changes.pop(place))
        for row, kind, rank in changes:
            self._found.add(row, kind, rank)

    def _emit_rows(self, before: list[int], after: list[int], came: int | None, went: int | None) -> None:
        gone = [place for place in before if place not in after]
        new = [place for place in after if place not in before]
        is_same_row = went in gone and came in new
        is_update = bool(gone and new) and (self._limit == 1 or is_same_row)
        for place in gone:
            self._found.add(place, UPDATE_BEFORE if is_update else DELETE, self._limit)
        for place in new:
            self._found.add(place, UPDATE_AFTER if is_update else INSERT, self._limit)


_EMPTY = np.empty(0, np.int64)
_LAST_RANK = np.iinfo(np.int64).max
