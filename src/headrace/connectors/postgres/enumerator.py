"""The driver's half of a source of PostgreSQL: first the chunks of the snapshot, then changes, all in one split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from headrace.common.errors import ConfigurationError
from headrace.connectors.postgres.decoding import ChangePiece
from headrace.connectors.postgres.replication import (
    ChangePlace,
    ChangeRun,
    ReplicationReceiver,
    identified,
    other_server,
)
from headrace.connectors.postgres.server import PostgresServer, telling
from headrace.connectors.postgres.snapshot import MANY_CHUNKS, Bound, Chunk, TableView, View, chunk_pieces
from headrace.connectors.postgres.tables import (
    CapturedTable,
    FoundTable,
    create_slot,
    current_lsn,
    drop_slot,
    ensure_publication,
    find_slot,
    look_up,
    matching,
    take_slot,
)
from headrace.connectors.source import Json, Pending, ReadBudget, SplitEnumerator, SplitRead

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

_STOP: Final = "stop"
_FINISHED: Final = "finished"
_SYSTEM: Final = "system"
_TABLES: Final = "tables"
_ADDED: Final = "added"

_ROW_BYTES: Final = 128
"""The estimated size of a row of the snapshot."""


class StartupMode(Enum):
    """Tells where a source of PostgreSQL begins.

    Examples:
        >>> from headrace.datastream.connectors.postgres import StartupMode
        >>> StartupMode("latest-offset").name
        'LATEST_OFFSET'
    """

    INITIAL = "initial"
    """With the rows that there are, and then their changes."""

    LATEST_OFFSET = "latest-offset"
    """With what is committed from now on."""

    COMMITTED_OFFSET = "committed-offset"
    """Start where the replication slot is, which exists already."""

    SNAPSHOT = "snapshot"
    """With the rows that there are, and nothing else: the source ends."""


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """The plan of what is read of a table.

    Attributes:
        startup: where it begins.
        chunk_size: how many rows a chunk of the snapshot has.
        is_bounded: whether it ends with what was committed when the job first starts.
        heartbeat: how often a place without changes is noted, in milliseconds: the server can drop its log then.
        adds_tables: whether tables are read that match a pattern when the job is restarted, and did not before.
    """

    startup: StartupMode = StartupMode.INITIAL
    chunk_size: int = 8_096
    is_bounded: bool = False
    heartbeat: int = 30_000
    adds_tables: bool = False

    @property
    def ends(self) -> bool:
        """Tell whether the source ends."""
        return self.is_bounded or self.startup is StartupMode.SNAPSHOT


@dataclass(frozen=True, slots=True)
class _Position:
    """The position up to which the tables were read.

    Attributes:
        views: by table, from which value of the key on rows of the snapshot are as of which place in the log.
        table: the table whose chunks come next, while there are some; None for the first one.
        start: where its next chunk begins.
        place: how far changes were read; None as long as there are chunks.
        resumes: where changes go on after the chunks of tables that were added; None for those of the first tables.
        added: the tables that were added, and are read from there on as the others.
    """

    views: Mapping[str, tuple[View, ...]] = field(default_factory=dict)
    table: str | None = None
    start: Bound = None
    place: ChangePlace | None = None
    resumes: ChangePlace | None = None
    added: tuple[str, ...] = ()

    @property
    def lsns(self) -> list[int]:
        """The places of all rows of the snapshot."""
        return [lsn for views in self.views.values() for _, lsn in views]

    @property
    def lsn(self) -> int | None:
        """The place from which the log is needed."""
        place = self.resumes if self.place is None else self.place
        return place.lsn if place is not None else min(self.lsns, default=None)


def _views(given: Json) -> tuple[View, ...]:
    return tuple((bound, lsn) for bound, lsn in given)


_READERS: Final[WeakValueDictionary[tuple[str, str], PostgresEnumerator]] = WeakValueDictionary()
"""The enumerators that read from a slot of a server in this process."""


class PostgresEnumerator(SplitEnumerator):
    """Plans chunks of the snapshot, one table after the other, and then changes of all tables.

    Args:
        server: where the tables are.
        table: the table, or what the tables are called.
        plan: what of it.
        state: what :meth:`snapshot` gave.
    """

    def __init__(self, server: PostgresServer, table: CapturedTable, plan: CapturePlan, state: Json | None) -> None:
        self._server = server
        self._table = table
        self._plan = plan
        self._state: dict[str, Any] = {} if state is None else dict(state)
        self._found: dict[str, FoundTable] = {}
        self._view: TableView | None = None
        self._receiver: ReplicationReceiver | None = None
        self._initial = _Position()
        self._moved_at: int | None = None
        self._needed: int | None = None

    def discover(self, now: int) -> Sequence[str]:
        if not self._found:
            self._claim_slot()
            self._open()
        if self._receiver is not None:
            self._receiver.check()
        return (str(self._table),)

    def initial_position(self, split_id: str) -> Json:
        return self._json(self._initial)

    def _of(self, position: Json) -> _Position:
        given, place = position["views"], position["place"]
        views = {name: _views(each) for name, each in given.items()} if isinstance(given, dict) else {}
        if not isinstance(given, dict) and given:
            views = {str(self._table): _views(given)}
        return _Position(
            views,
            position.get("table"),
            position["start"],
            None if place is None else ChangePlace(*place),
            ChangePlace(*position["resumes"]) if "resumes" in position else None,
            tuple(position.get(_ADDED, ())),
        )

    def _json(self, known: _Position) -> Json:
        """A position for the manifest, in which a source of one table does not name it."""
        place = None if known.place is None else list(known.place)
        views = {name: [list(view) for view in each] for name, each in known.views.items()}
        if not self._table.is_pattern:
            return {"views": views.get(str(self._table), []), "start": known.start, "place": place}
        made: dict[str, Json] = {"views": views, "table": known.table, "start": known.start, "place": place}
        if known.resumes is not None:
            made["resumes"] = list(known.resumes)
        return {**made, _ADDED: list(known.added)} if known.added else made

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        known = self._with_added(self._of(position))
        if known.place is None:
            return self._plan_chunks(split_id, position, known, budget)
        return self._plan_changes(split_id, position, known, budget, now)

    def _with_added(self, known: _Position) -> _Position:
        """The position at which the chunks of tables begin that were added; others go on from there after them."""
        added = tuple(name for name in self._stored_tables(_ADDED) if name not in known.added)
        if known.place is None or not added:
            return known
        if self._plan.startup is not StartupMode.INITIAL:
            return replace(known, added=(*known.added, *added))
        return _Position(known.views, added[0], resumes=known.place, added=known.added)

    def is_finished(self, split_id: str, position: Json) -> bool:
        known = self._of(position)
        stop = self._stop(known)
        return known.place is not None and stop is not None and known.place.lsn >= stop

    def _stop(self, known: _Position) -> int | None:
        """The place up to which changes are read: of a snapshot, the place of its latest rows."""
        if self._plan.startup is StartupMode.SNAPSHOT:
            return max(known.lsns, default=0)
        stop: int | None = self._state.get(_STOP)
        return stop

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        place = self._of(position).place
        if place is None or self._receiver is None:
            return Pending()
        return Pending(*self._receiver.waiting(place))

    def is_processing_backlog(self, now: int) -> bool:
        return self._view is not None

    def snapshot(self) -> Json:
        return self._state

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        position = positions.get(str(self._table))
        if position is None:
            return
        known = self._of(position)
        self._needed = known.lsn
        if known.place is not None:
            self._close_view()
            if self._receiver is not None:
                self._receiver.forget(known.place)
        if _FINISHED in self._state:
            self.close()
            with closing(self._server.connect(f"source of {self._table}")) as connection:
                drop_slot(connection, self._table.slot)

    def close(self) -> None:
        for each in (self._receiver, self._view):
            if each is not None:
                each.close()
        if _READERS.get(self._slot) is self:
            del _READERS[self._slot]

    # --- the beginning -----------------------------------------------------------------------------------------------

    @property
    def _slot(self) -> tuple[str, str]:
        return (str(self._server), self._table.slot)

    def _claim_slot(self) -> None:
        """Refuse a slot from which this process reads another table: each would lose changes to the other."""
        other = _READERS.get(self._slot)
        if other is not None and str(other._table) != str(self._table):
            raise ConfigurationError(
                f"tables {other._table} and {self._table} are read from the same replication slot "
                f"{self._table.slot!r}: each source of each job needs a slot of its own, by 'slot.name'"
            )
        _READERS[self._slot] = self

    def _open(self) -> None:
        """See that the table is there, with its publication and its slot."""
        with closing(self._connected()) as connection:
            there = self._look_up(connection)
            if _FINISHED not in self._state:
                self._check_server()
                named = [self._table.named(each.schema, each.table) for each in there.values()]
                ensure_publication(connection, named, self._stored_tables(_ADDED))
                if self._needed is not None:
                    take_slot(connection, self._table.slot, self._needed, is_own=True)
                else:
                    self._begin(connection)
            if self._plan.is_bounded and _STOP not in self._state:
                self._state[_STOP] = current_lsn(connection)
        self._found = {**self._known_before(), **there}

    def _look_up(self, connection: Connection) -> dict[str, FoundTable]:
        """The tables that are there: of a pattern those that matched when the job began, as far as they are left."""
        names = [self._table]
        if self._table.is_pattern:
            names = matching(connection, self._table)
            before = self._known_before()
            names = [each for each in names if not before or self._plan.adds_tables or str(each) in before]
        found = {str(each): look_up(connection, each) for each in names}
        if not self._table.is_pattern:
            return found
        if _TABLES not in self._state:
            self._state[_TABLES] = [list(astuple(each)) for each in found.values()]
        elif added := [list(astuple(found[name])) for name in found if name not in self._known_before()]:
            self._state[_ADDED] = [*self._state.get(_ADDED, []), *added]
        return found

    def _known_before(self) -> dict[str, FoundTable]:
        """The tables that matched a pattern when the job began, and those that were added since, in that order."""
        return {**self._stored_tables(_TABLES), **self._stored_tables(_ADDED)}

    def _stored_tables(self, entry: str) -> dict[str, FoundTable]:
        rows = self._state.get(entry, [])
        found = [FoundTable(schema, table, tuple(key), *chunks) for schema, table, key, *chunks in rows]
        return {each.full_name: each for each in found}

    def _connected(self) -> Connection:
        """A connection; a server that a job has never reached is waited for as long as its timeout says.

        Raises:
            ConfigurationError: when it does not answer meanwhile: its address may be wrong.
            InfrastructureError: when it cannot be reached, and the job has read from it before.
        """
        purpose = f"source of {self._table}"
        if _SYSTEM in self._state:
            return self._server.connect(purpose)
        return self._server.connect_at_first(purpose, "'connect.timeout'", "'hostname' and 'port' are")

    def _check_server(self) -> None:
        with (
            telling(f"PostgreSQL at {self._server}"),
            closing(self._server.connect("source", replication=True)) as connection,
        ):
            system = identified(connection)
        if self._state.setdefault(_SYSTEM, system) != system:
            raise other_server(self._server, self._state[_SYSTEM], system)

    def _begin(self, connection: Any) -> None:
        """Find the slot of a job that begins, or create it, and say where the job begins."""
        startup, name = self._plan.startup, self._table.slot
        slot = find_slot(connection, name)
        if slot is None:
            if startup is StartupMode.COMMITTED_OFFSET:
                raise ConfigurationError(
                    f"'scan.startup.mode' = 'committed-offset' begins where the replication slot {name!r} is, and "
                    "there is none"
                )
            slot = create_slot(connection, name)
        else:
            slot = take_slot(connection, name, current_lsn(connection), is_own=False)
        if startup is StartupMode.COMMITTED_OFFSET:
            self._initial = _Position(place=ChangePlace(slot.confirmed))
        elif startup is StartupMode.LATEST_OFFSET:
            self._initial = _Position(place=ChangePlace(current_lsn(connection)))

    # --- the snapshot ------------------------------------------------------------------------------------------------

    def _plan_chunks(self, split_id: str, position: Json, known: _Position, budget: ReadBudget) -> SplitRead:
        rows = min(budget.records, budget.bytes // _ROW_BYTES)
        count = max(1, min(MANY_CHUNKS, rows // self._plan.chunk_size))
        size = min(self._plan.chunk_size, max(1, rows))
        chunks: list[Chunk] = []
        end = known
        while len(chunks) < count and end.place is None:
            end = self._take_chunks(end, size, count - len(chunks), chunks)
        self._note_end(end)
        pieces = chunk_pieces(chunks, self._opened_view().snapshot, budget.pieces)
        return SplitRead(
            split_id, position, self._json(end), pieces, len(chunks) * size, len(chunks) * size * _ROW_BYTES
        )

    def _take_chunks(self, known: _Position, size: int, count: int, chunks: list[Chunk]) -> _Position:
        """Add the next chunks of a table, so many at most; gives the position behind them."""
        view, names = self._opened_view(), list(self._found)
        name = names[0] if known.table is None else known.table
        views = known.views.get(name, ())
        if not views or views[-1][1] != view.lsn:
            views = (*views, (known.start, view.lsn))
        bounds = view.chunks(self._found[name], known.start, size, count)
        chunks += [(self._found[name], start, end) for start, end in pairwise(bounds)]
        end = replace(known, views={**known.views, name: views}, table=name, start=bounds[-1])
        if bounds[-1] is not None:
            return end
        following = names[names.index(name) + 1 :]
        if following:
            return replace(end, table=following[0])
        return _end_of_snapshot(replace(end, added=tuple(self._stored_tables(_ADDED))))

    def _opened_view(self) -> TableView:
        if self._view is None:
            self._view = TableView(self._server, self._table)
        return self._view

    def _close_view(self) -> None:
        """Let go of the snapshot, and of the locks that it has on the tables."""
        if self._view is not None:
            self._view.close()
            self._view = None

    # --- changes -----------------------------------------------------------------------------------------------------

    def _plan_changes(
        self, split_id: str, position: Json, known: _Position, budget: ReadBudget, now: int
    ) -> SplitRead | None:
        assert known.place is not None
        if self.is_finished(split_id, position):
            return None
        receiver = self._opened_receiver(known.place)
        stop = self._stop(known)
        share = receiver.share(known.place, budget.records, budget.bytes, stop)
        later = known.place.lsn
        views = {name: each for name, each in known.views.items() if any(lsn > later for _, lsn in each)}
        end = _Position(views, place=share.end, added=known.added)
        if share.runs:
            self._moved_at = now
            self._note_end(end)
            return SplitRead(
                split_id, position, self._json(end), self._pieces(share.runs, views), share.count, share.size
            )
        if self._moved_at is None:
            self._moved_at = now
        is_due = now - self._moved_at >= self._plan.heartbeat or (stop is not None and share.end.lsn >= stop)
        if share.end == known.place or not is_due:
            return None
        self._moved_at = now
        self._note_end(end)
        return SplitRead(split_id, position, self._json(end), ())

    def _note_end(self, end: _Position) -> None:
        """Note in the state of a snapshot that it is read, as of the manifest that holds its end."""
        if self._plan.startup is StartupMode.SNAPSHOT and self.is_finished("", self._json(end)):
            self._state[_FINISHED] = True

    def _opened_receiver(self, place: ChangePlace) -> ReplicationReceiver:
        if self._receiver is None:
            self._close_view()
            tables = [self._table.named(each.schema, each.table) for each in self._found.values()]
            self._receiver = ReplicationReceiver(self._server, self._table, tables, self._state[_SYSTEM], place)
        return self._receiver

    def _pieces(self, runs: tuple[ChangeRun, ...], views: Mapping[str, tuple[View, ...]]) -> tuple[ChangePiece, ...]:
        names = {str(self._table.named(run.relation.schema, run.relation.table)) for run in runs}
        found = {name: self._found[name] for name in names}
        return (ChangePiece(runs, found, {name: views[name] for name in names & views.keys()}),)


def _end_of_snapshot(end: _Position) -> _Position:
    """The position at which changes begin, the earliest one of the rows; tasks find out which changes rows contain."""
    place = end.resumes or ChangePlace(min(end.lsns))
    is_needed = end.resumes is not None or len(set(end.lsns)) > 1
    return _Position(end.views if is_needed else {}, place=place, added=end.added)
