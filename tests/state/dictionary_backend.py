"""A state backend of dicts and lists of Python, written as a whole after each epoch: the plainest one that is right.

The tests of state backends run on it as on headrace's own, and it shows how little a backend needs.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, StateCorruptedError, StateError, StateMigrationError
from headrace.state.backend import StateBackendPlugin, StateOwner, TaskStates
from headrace.state.interfaces import MergingState
from headrace.state.keyed.namespaces import KeyScope, Namespace, ordered_bytes
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.hashing import hash_bounds_of_partition
from headrace.state.operator_state import Redistribution
from headrace.state.protocols import KEYED, OperatorStates, StateKind, kind_of_store, store_name
from headrace.state.runs import ALL_HASHES, HashRange, Run, RunStore
from headrace.state.runs.sections import Section
from headrace.state.state_file import VersionName, VersionRef
from headrace.state.timers import NO_TIMER, Timer
from tests.state.dictionary_states import KINDS, Cells, DictionaryListState, DictionaryMapState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headrace.state import descriptors as d
    from headrace.state.keys.codecs import KeyEntry
    from headrace.storage.folder import Folder

THE_KEY: Final = (0, 0)
"""The states of a subtask are kept as those of one key."""


class TimerRecord(NamedTuple):
    """A timer as it is stored: its key by hash and canonical form, its namespace as bytes and as it is."""

    time: int
    hash: int
    raw: Any
    order: bytes
    namespace: Namespace


class Table(NamedTuple):
    """A state by key: how it was declared, and what it holds, by hash and canonical form of the key."""

    declared: Any
    cells: dict[tuple[Any, ...], Any]


@dataclass
class OperatorRecord:
    """All that is stored of an operator."""

    keys: Any = None
    tables: dict[tuple[str, bool], Table] = field(default_factory=dict)
    timers: dict[str, set[TimerRecord]] = field(default_factory=lambda: {"event": set(), "processing": set()})
    without_keys: dict[str, Table] = field(default_factory=dict)
    logs: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be stored."""
        tables = [*self.tables.values(), *self.without_keys.values()]
        return not (any(self.timers.values()) or any(self.logs.values()) or any(table.cells for table in tables))

    def take_keyed(self, other: OperatorRecord, hashes: HashRange) -> None:
        """Adds what another one holds of the keys within ``hashes``."""
        self.keys = other.keys or self.keys
        for name, table in other.tables.items():
            mine = self.tables.setdefault(name, Table(table.declared, {}))
            mine.cells.update((key, cell) for key, cell in table.cells.items() if hashes[0] <= key[0] < hashes[1])
        for domain, timers in other.timers.items():
            self.timers[domain] |= {timer for timer in timers if hashes[0] <= timer.hash < hashes[1]}
        for name, tables in other.logs.items():
            if kind_of_store(name) is None:
                self.logs.setdefault(name, []).extend(tables)


class DictionaryStateBackend(StateBackendPlugin):
    """What ``state.backend.type`` calls ``dictionary``."""

    def open(
        self,
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
    ) -> TaskStates:
        return DictionaryTask(storage, refs, stage, partition, operators)


class DictionaryTask:
    """The state of a task."""

    def __init__(
        self,
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        owners: Mapping[str, StateOwner],
    ) -> None:
        self.ref: VersionRef | None = None
        self._storage = storage
        self._stage = stage
        self._partition = partition
        self._written = b""
        versions = [(ref.partition, _read(storage, ref)) for ref in refs]
        self._operators = {
            uid: DictionaryOperator(uid, owner, partition, {n: held[uid] for n, held in versions if uid in held})
            for uid, owner in owners.items()
            if partition < owner.parallelism
        }

    def operator(self, uid: str) -> OperatorStates:
        return self._operators[uid]

    def adopt(self, result: Any) -> bool:
        return False

    def snapshot(self, epoch: int, generation: int, inline_threshold: int) -> VersionRef:
        records = {uid: operator.record() for uid, operator in self._operators.items()}
        held = {uid: record for uid, record in records.items() if not record.is_empty}
        data = pickle.dumps(held, protocol=5) if held else b""
        if self.ref is not None and data == self._written:
            return self.ref
        self._written = data
        if len(data) <= inline_threshold or not data:
            self.ref = VersionRef(self._stage, self._partition, epoch, inline=data)
        else:
            name = str(VersionName(epoch, generation, self._stage, self._partition, _digest(data)))
            self._storage.write(name, [data])
            self.ref = VersionRef(self._stage, self._partition, epoch, name=name, files=(name,))
        return self.ref

    def sizes(self) -> dict[str, dict[str, int]]:
        return {"": {"": len(self._written)}} if self._written else {}

    def close(self) -> None:
        self._operators.clear()


def _read(storage: Folder, ref: VersionRef) -> dict[str, OperatorRecord]:
    data = ref.inline
    if ref.name:
        try:
            data = storage.read(ref.name)
        except FileNotFoundError as error:
            raise StateCorruptedError(f"the state file {ref.name} is missing") from error
        name = VersionName.parse(ref.name)
        if name is None or name.digest != _digest(data):
            raise StateCorruptedError(f"the state file {ref.name} is damaged")
    held: dict[str, OperatorRecord] = pickle.loads(data) if data else {}
    return held


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class DictionaryOperator:
    """The state of one operator in one task."""

    def __init__(self, uid: str, owner: StateOwner, partition: int, held: Mapping[int, OperatorRecord]) -> None:
        self._uid = uid
        self._hashes = hash_bounds_of_partition(partition, owner.parallelism, owner.max_parallelism)
        self._partition = partition
        self._record = OperatorRecord()
        for record in held.values():
            self._record.take_keyed(record, self._hashes)
        self._record.without_keys = _dealt(held, owner, partition)
        self._logs: dict[str, RunStore] = {
            name: self._restored(name, tables) for name, tables in self._record.logs.items()
        }
        self._logs |= _dealt_logs(held, owner, partition)
        self._keyed: DictionaryKeyed | None = None
        self._timers: DictionaryTimers | None = None
        self._without_keys = None
        if owner.kinds - KEYED:
            self._without_keys = DictionaryStatesWithoutKeys(
                owner.kinds, self._record.without_keys, self.store, is_restored=owner.before is not None
            )
        self._epoch = (MIN_WATERMARK, 0)

    def bind_key_codec(self, codec: KeyCodec) -> None:
        if self._keyed is not None:
            if self._keyed.codec.to_json() != codec.to_json():
                raise InvalidProgramError(f"the inputs of operator {self._uid!r} have keys of different types")
            return
        if self._record.keys not in (None, codec.to_json()):
            raise StateMigrationError(f"stored for keys of another type: {self._record.keys}")
        self._record.keys = codec.to_json()
        self._keyed = DictionaryKeyed(codec, self._record.tables)
        self._timers = DictionaryTimers(self._keyed, self._record.timers)
        self.begin_epoch(*self._epoch)

    @property
    def keyed(self) -> DictionaryKeyed:
        if self._keyed is None:
            raise StateError(f"the operator {self._uid!r} has no keys, so it has no keyed state and no timers")
        return self._keyed

    @property
    def timers(self) -> DictionaryTimers:
        assert self.keyed is not None
        assert self._timers is not None
        return self._timers

    @property
    def operator_state_store(self) -> DictionaryStatesWithoutKeys:
        if self._without_keys is None:
            raise StateError(f"the spec of operator {self._uid!r} declares no kind of state without keys")
        return self._without_keys

    def store(self, name: str) -> RunStore:
        if name not in self._logs:
            hashes = self._hashes if kind_of_store(name) is None else ALL_HASHES
            self._logs[name] = RunStore(name, hashes, partition=self._partition)
        return self._logs[name]

    def stored(self) -> Sequence[str]:
        found = [name for name, log in self._logs.items() if log.runs]
        found += [f"keyed/{name}" for (name, _), table in self._record.tables.items() if table.cells]
        return found + [f"timers/{domain}" for domain, timers in self._record.timers.items() if timers]

    def drop_windows(self, *states: str) -> int:
        of_windows = [name for name in self._record.tables if name[1] or name[0] in states]
        rows = sum(len(self._record.tables.pop(name).cells) for name in of_windows)
        for timers in self._record.timers.values():
            rows += len(timers)
            timers.clear()
        for name, log in self._logs.items():
            if kind_of_store(name) is None:
                rows += log.rows
                for run in log.runs:
                    log.drop(run)
        if self._keyed is not None:
            self._keyed = DictionaryKeyed(self._keyed.codec, self._record.tables)
            self._timers = DictionaryTimers(self._keyed, self._record.timers)
            self.begin_epoch(*self._epoch)
        return rows

    def earliest_processing_time(self) -> int | None:
        earliest = NO_TIMER if self._timers is None else self._timers.processing.next_due
        return None if earliest == NO_TIMER else earliest

    def begin_epoch(self, watermark: int, processing_time: int) -> None:
        self._epoch = (watermark, processing_time)
        if self._keyed is not None and self._timers is not None:
            self._keyed.begin_epoch(processing_time)
            self._timers.begin_epoch(watermark)

    def end_epoch(self) -> None:
        if self._keyed is not None:
            self._keyed.forget_keys()
        if self._without_keys is not None:
            self._without_keys.is_restored = False

    def record(self) -> OperatorRecord:
        """What has to be stored."""
        self._record.logs = {
            name: [(run.section.batch, run.meta, run.hashes, run.whole, run.origin) for run in log.runs]
            for name, log in self._logs.items()
        }
        return self._record

    def _restored(self, name: str, tables: Iterable[tuple[Any, ...]]) -> RunStore:
        runs = []
        for batch, meta, hashes, whole, origin in tables:
            run = Run(Section(batch), meta, hashes, whole=whole, origin=origin).restricted(self._hashes)
            runs += [] if run is None else [run]
        return RunStore(name, self._hashes, runs, partition=self._partition)


def _dealt(held: Mapping[int, OperatorRecord], owner: StateOwner, partition: int) -> dict[str, Table]:
    """The states without keys that a subtask goes on with."""
    declared = {name: table.declared for record in held.values() for name, table in record.without_keys.items()}
    pieces = {
        name: {number: [found.cells] for number, record in held.items() if (found := record.without_keys.get(name))}
        for name in declared
    }
    if owner.before is None:
        return {
            name: Table(declared[name], found[partition][0]) for name, found in pieces.items() if partition in found
        }
    elements = {
        name: {number: list(cells.get(THE_KEY, ())) for number, (cells,) in found.items()}
        for name, found in pieces.items()
        if kind_of_store(name) is not StateKind.BROADCAST
    }
    redistribution = Redistribution(owner.before, owner.parallelism, partition, owner.shares)
    lists = redistribution.deal(
        {name: {number: [part] for number, part in parts.items()} for name, parts in elements.items()},
        len,
        lambda part, first, last: part[first:last],
    )
    dealt = {
        name: Table(declared[name], {THE_KEY: [e for part in parts for e in part]}) for name, parts in lists.items()
    }
    for name, found in pieces.items():
        if kind_of_store(name) is StateKind.BROADCAST:
            for number in redistribution.subtasks_of(StateKind.BROADCAST):
                dealt[name] = Table(declared[name], found[number][0] if number in found else {})
    return dealt


def _dealt_logs(held: Mapping[int, OperatorRecord], owner: StateOwner, partition: int) -> dict[str, RunStore]:
    """The logs without keys that a subtask goes on with."""
    logs: dict[str, dict[int, list[Run]]] = {}
    for number, record in held.items():
        for name, tables in record.logs.items():
            if kind_of_store(name) is not None:
                runs = [Run(Section(batch), meta, ALL_HASHES, origin=origin) for batch, meta, *_, origin in tables]
                logs.setdefault(name, {})[number] = runs
    if owner.before is None:
        dealt = {name: found.get(partition, []) for name, found in logs.items()}
    else:
        dealt = Redistribution(owner.before, owner.parallelism, partition, owner.shares).runs(logs)
    return {name: RunStore(name, ALL_HASHES, runs, partition=partition) for name, runs in dealt.items()}


def _table(tables: dict[Any, Table], name: Any, descriptor: d.StateDescriptor) -> dict[tuple[Any, ...], Any]:
    """What a state holds.

    Raises:
        StateMigrationError: when something else is stored under its name.
    """
    declared = (descriptor.kind, descriptor.stored_types())
    table = tables.setdefault(name, Table(declared, {}))
    if table.declared != declared:
        raise StateMigrationError(f"the state {name!r} was stored as {table.declared}, and is declared as {declared}")
    return table.cells


class DictionaryKeyed(KeyScope):
    """Keyed states."""

    def __init__(self, codec: KeyCodec, tables: dict[tuple[str, bool], Table]) -> None:
        super().__init__(codec)
        self._tables = tables
        self._declared: dict[tuple[str, bool], tuple[d.StateDescriptor, Any]] = {}

    def state(self, descriptor: d.StateDescriptor) -> Any:
        return self._state(descriptor, is_namespaced=False)

    def namespaced_state(self, descriptor: d.StateDescriptor) -> Any:
        return self._state(descriptor, is_namespaced=True)

    def keys_and_namespaces(self, descriptor: d.StateDescriptor) -> list[tuple[KeyEntry, Namespace]]:
        self.namespaced_state(descriptor)
        pairs = [(raw, namespace) for _, raw, namespace in self._tables[descriptor.name, True].cells]
        entries = self.bind(KeyColumn.of(pa.array([raw for raw, _ in pairs], self.codec.arrow_type)))
        return [(entry, namespace) for entry, (_, namespace) in zip(entries, pairs, strict=True)]

    def enter_namespace(self, namespace: Namespace, keys: Iterable[KeyEntry]) -> None:
        self.namespace = namespace

    def merge_namespaces(self, descriptor: d.StateDescriptor, sources: Iterable[Namespace]) -> None:
        state, target = self.namespaced_state(descriptor), self.namespace
        if not isinstance(state, MergingState):
            raise InvalidProgramError(f"two states of {descriptor.label} cannot be made one")
        table, cells = self._tables[descriptor.name, True].cells, []
        for self.namespace in sources:
            cells.append(table.pop(self._key_and_namespace(), None))
        self.namespace = target
        for cell in cells:
            if cell is not None:
                state.absorb(cell)

    def begin_epoch(self, clock: int) -> None:
        self.clock = clock
        self.forget_keys()

    def _state(self, descriptor: d.StateDescriptor, *, is_namespaced: bool) -> Any:
        name = (descriptor.name, is_namespaced)
        if name not in self._declared:
            key = self._key_and_namespace if is_namespaced else self._key
            cells = Cells(_table(self._tables, name, descriptor), key, descriptor.ttl, self)
            self._declared[name] = (descriptor, KINDS[descriptor.kind](cells, descriptor))
        known, state = self._declared[name]
        if known is not descriptor and not known.describes_same(descriptor):
            raise InvalidProgramError(f"the operator declares the state {descriptor.name!r} twice, differently")
        return state

    def _key(self) -> tuple[Any, ...]:
        return self.current.hash, self.current.raw

    def _key_and_namespace(self) -> tuple[Any, ...]:
        if self.namespace is None:
            raise StateError("state of a key and namespace is used without a namespace")
        return self.current.hash, self.current.raw, self.namespace


class DictionaryDomain:
    """The timers of one time domain."""

    def __init__(self, scope: KeyScope, timers: set[TimerRecord]) -> None:
        self._scope = scope
        self._timers = timers
        self._reached: int | None = None

    @property
    def next_due(self) -> int:
        return min((timer.time for timer in self._timers), default=NO_TIMER)

    def register(self, time: int, namespace: Namespace = None) -> None:
        self._timers.add(self._timer(time, namespace))

    def delete(self, time: int, namespace: Namespace = None) -> None:
        self._timers.discard(self._timer(time, namespace))

    def foresee(self, up_to: int) -> Sequence[tuple[KeyEntry, Namespace]]:
        return ()

    def pop_due(self, up_to: int) -> Iterator[Timer]:
        if self._reached is not None and up_to <= self._reached:
            return
        self._reached = up_to
        while (time := self.next_due) <= up_to:
            for timer in sorted(timer for timer in self._timers if timer.time == time):
                if timer in self._timers:
                    self._timers.remove(timer)
                    yield Timer(time, self._entry(timer), timer.namespace)

    def begin_epoch(self, reached: int | None) -> None:
        """``reached`` is how far time has come; None when that is not known."""
        self._reached = reached

    def _timer(self, time: int, namespace: Namespace) -> TimerRecord:
        key = self._scope.current
        return TimerRecord(time, key.hash, key.raw, b"" if namespace is None else ordered_bytes(namespace), namespace)

    def _entry(self, timer: TimerRecord) -> KeyEntry:
        values = pa.array([timer.raw], self._scope.codec.arrow_type)
        (entry,) = self._scope.bind(KeyColumn(values, np.array([timer.hash], np.uint64)))
        return entry


class DictionaryTimers:
    """The timers of one operator."""

    def __init__(self, scope: KeyScope, timers: dict[str, set[TimerRecord]]) -> None:
        self.event = DictionaryDomain(scope, timers["event"])
        self.processing = DictionaryDomain(scope, timers["processing"])

    def begin_epoch(self, watermark: int) -> None:
        """Event time has come to ``watermark``."""
        self.event.begin_epoch(None if watermark == MIN_WATERMARK else watermark)
        self.processing.begin_epoch(None)


class _NoClock:
    """States without keys do not expire."""

    clock = 0


class DictionaryStatesWithoutKeys:
    """Lists and broadcast maps of a subtask."""

    def __init__(
        self, kinds: Iterable[StateKind], tables: dict[str, Table], log: Callable[[str], RunStore], *, is_restored: bool
    ) -> None:
        self.is_restored = is_restored
        self._log = log
        self._kinds = frozenset(kinds)
        self._tables = tables

    def list_state(self, descriptor: d.ListStateDescriptor) -> DictionaryListState:
        return DictionaryListState(self._cells(StateKind.LIST, descriptor), descriptor)

    def union_list_state(self, descriptor: d.ListStateDescriptor) -> DictionaryListState:
        return DictionaryListState(self._cells(StateKind.UNION, descriptor), descriptor)

    def broadcast_state(self, descriptor: d.MapStateDescriptor) -> DictionaryMapState:
        return DictionaryMapState(self._cells(StateKind.BROADCAST, descriptor), descriptor)

    def list_log(self, name: str) -> RunStore:
        if StateKind.LIST not in self._kinds:
            raise StateError("the spec declares no list state")
        return self._log(store_name(StateKind.LIST, name))

    def _cells(self, kind: StateKind, descriptor: d.StateDescriptor) -> Cells:
        if kind not in self._kinds:
            raise StateError(f"the spec declares no {kind.value} state")
        if descriptor.ttl is not None:
            raise InvalidProgramError(f"{kind.value} state has no time to live")
        for other in self._kinds - KEYED - {kind}:
            if store_name(other, descriptor.name) in self._tables:
                raise StateMigrationError(f"the state {descriptor.name!r} was stored as {other.value} state")
        return Cells(
            _table(self._tables, store_name(kind, descriptor.name), descriptor), lambda: THE_KEY, None, _NoClock()
        )
