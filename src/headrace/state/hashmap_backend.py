"""``HashMapBackend``: keeps runs in state files, merges them beside the epochs, and exports their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import (
    InfrastructureError,
    InvalidProgramError,
    InvalidTypeError,
    StateCorruptedError,
    StateError,
)
from headrace.state.backend import StateBackendPlugin, StateOwner
from headrace.state.compaction import CompactionResult, CompactionTask, plan_compaction, run_compaction
from headrace.state.exported_tables import ExportedTable, Importer, exported
from headrace.state.keyed.backend import STORE_PREFIX, KeyedStateBackend
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import hash_bounds_of_partition
from headrace.state.operator_state import (
    PART_INSIDE,
    OperatorStateBackend,
    Redistribution,
    SharedRuns,
    is_alike,
    is_broadcast,
    kind_of_store,
)
from headrace.state.protocols import KEYED, StateKinds
from headrace.state.runs import ALL_HASHES, HashRange, Run, RunStore
from headrace.state.runs.merge_input import LOW, without_rows
from headrace.state.runs.sections import Section
from headrace.state.state_file import (
    FORMAT,
    ImageWriter,
    NewVersion,
    RunHead,
    VersionName,
    VersionRef,
    entry_of_run,
    read_index,
    run_of_entry,
)
from headrace.state.timers import HashMapTimers
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder


class HashMapOperatorStates:
    """All state of one operator, from epoch to epoch.

    An epoch is ``begin_epoch``, any use, ``end_epoch``; after that the task takes its snapshot.

    Args:
        uid: the operator.
        store: gives the runs of a store by its name.
        kinds: the kinds of state that its spec declares.
        is_restored: whether the job has just gone on from a checkpoint that knows the operator.
        stored: gives the names of the stores that hold something.
    """

    def __init__(
        self,
        uid: str,
        store: Callable[[str], RunStore],
        kinds: StateKinds = KEYED,
        *,
        is_restored: bool = False,
        stored: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.uid = uid
        self.stored = stored
        self._store = store
        self._without_keys: OperatorStateBackend | None = None
        if kinds - KEYED:
            self._without_keys = OperatorStateBackend(uid, kinds, store, is_restored=is_restored)
        self._backend: KeyedStateBackend | None = None
        self._timers: HashMapTimers | None = None
        self._clock = 0
        self._watermark = MIN_WATERMARK

    def bind_key_codec(self, codec: KeyCodec) -> None:
        """Says how the operator's keys are stored; before :attr:`keyed` or :attr:`timers` is used. Once is enough.

        Raises:
            InvalidProgramError: when the inputs of the operator have keys of different types.
        """
        if self._backend is None:
            self._backend = KeyedStateBackend(codec, self._store)
            self._backend.begin_epoch(self._clock, self._watermark)
        elif self._backend.codec.to_json() != codec.to_json():
            raise InvalidProgramError(
                f"the inputs of operator {self.uid!r} have keys of different types: {self._backend.codec.type} "
                f"and {codec.type}"
            )

    @property
    def keyed(self) -> KeyedStateBackend:
        """The keyed states."""
        if self._backend is None:
            raise StateError(f"the operator {self.uid!r} has no keys, so it has no keyed state and no timers")
        return self._backend

    @property
    def timers(self) -> HashMapTimers:
        """The timers."""
        if self._timers is None:
            self._timers = HashMapTimers(self.keyed, self._store)
            self._timers.begin_epoch(self._watermark)
        return self._timers

    @property
    def operator_state_store(self) -> OperatorStateBackend:
        """The states without keys."""
        if self._without_keys is None:
            raise StateError(f"the spec of operator {self.uid!r} declares no kind of state without keys")
        return self._without_keys

    def store(self, name: str) -> RunStore:
        """A store of runs for the operator's own use. Names with a slash are taken by the states and timers."""
        if "/" in name:
            raise StateError(f"the name of a store must not contain a slash: {name!r}")
        return self._store(name)

    def drop_windows(self, *states: str) -> int:
        """Drops timers, logs, states of key and namespace, and these states of keys; returns how many rows."""
        of_windows = {STORE_PREFIX + name for name in states}
        rows = 0
        for name in self.stored():
            if kind_of_store(name) is None and (name in of_windows or not name.startswith(STORE_PREFIX)):
                store = self._store(name)
                rows += sum(run.count_own_rows(run.meta.get(LOW, 0)) for run in store.runs)
                for run in store.runs:
                    store.drop(run)
        if self._backend is not None:
            self._backend = KeyedStateBackend(self._backend.codec, self._store)
            self._backend.begin_epoch(self._clock, self._watermark)
        self._timers = None
        return rows

    def earliest_processing_time(self) -> int | None:
        """When the earliest timer in processing time is due (or earlier); None when there is none."""
        return self.timers.earliest_processing_time() if self._backend is not None else None

    def begin_epoch(self, watermark: int, processing_time: int) -> None:
        """Starts an epoch: event time has come to ``watermark``, the clock reads ``processing_time``."""
        self._watermark, self._clock = watermark, processing_time
        if self._backend is not None:
            self._backend.begin_epoch(processing_time, watermark)
        if self._timers is not None:
            self._timers.begin_epoch(watermark)

    def end_epoch(self) -> None:
        """Ends the epoch: what has changed becomes runs.

        Raises:
            InvalidTypeError: when something cannot be stored; it names the operator.
        """
        for states in (self._backend, self._without_keys):
            if states is not None:
                try:
                    states.end_epoch()
                except InvalidTypeError as error:
                    raise InvalidTypeError(f"operator {self.uid!r}, {error}") from error
        if self._timers is not None:
            self._timers.end_epoch()
        if self._backend is not None:
            self._backend.forget_keys()


SectionOf = Callable[[dict[str, Any], str, Callable[[], MappedFile]], Section]
"""Opens the section that an index describes: its entry, the name of its file, and what maps that."""

StoreKey = tuple[str, str]
"""The uid of an operator and the name of one of its stores."""

_NO_HASHES: HashRange = (0, 0)


class HashMapTaskStates:
    """One version of a task's state, open for the next epoch.

    After :meth:`snapshot` it stands for the version that was written, so a caller may keep it for the next epoch as
    long as that epoch begins from :attr:`ref`. After a failed epoch it has to be thrown away.
    """

    def __init__(
        self,
        storage: Folder,
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
        section_of: SectionOf = Section.stored,
    ) -> None:
        self._storage = storage
        self._stage = stage
        self._partition = partition
        self._owners = operators
        self._section_of = section_of
        self._ranges = _ranges(operators, partition)
        self._maps: dict[str, MappedFile] = {}
        self._stores: dict[StoreKey, RunStore] = {}
        self._operators: dict[str, HashMapOperatorStates] = {}
        self.ref: VersionRef | None = None

    @staticmethod
    def open(
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
        section_of: SectionOf = Section.stored,
    ) -> HashMapTaskStates:
        """Opens the state of a task; only indexes are read. As :meth:`headrace.state.backend.StateBackendPlugin.open`.

        ``section_of`` opens what an index describes.
        """
        task = HashMapTaskStates(storage, stage, partition, operators, section_of)
        held: dict[StoreKey, dict[int, list[Run]]] = {}
        same_owner = [task._read_version(ref, held) for ref in refs]
        runs = {key: [run for found in by_partition.values() for run in found] for key, by_partition in held.items()}
        for uid, owner in operators.items():
            if owner.before is not None and partition < owner.parallelism:
                stores = {name: found for (of, name), found in held.items() if of == uid and kind_of_store(name)}
                dealt = Redistribution(owner.before, owner.parallelism, partition, owner.shares).runs(stores)
                runs |= {(uid, name): found for name, found in dealt.items()}
        for (uid, name), found in runs.items():
            task._stores[uid, name] = RunStore(name, task._hashes_of(uid, name), found, partition=partition)
        if len(refs) == 1 and same_owner[0] and refs[0].partition == partition and refs[0].stage == stage:
            task.ref = refs[0]
        return task

    @staticmethod
    def stored_runs(storage: Folder, ref: VersionRef, section_of: SectionOf) -> dict[StoreKey, list[Run]]:
        """The runs of a version by operator and store, each for the keys that its partition owned."""
        task = HashMapTaskStates(storage, ref.stage, ref.partition, {}, section_of)
        load = _inline_loader(ref.inline) if ref.inline else task._loader(ref.name)
        found: dict[StoreKey, list[Run]] = {}
        for key, run in task._read_runs(read_index(load(), ref), ref, load):
            found.setdefault(key, []).append(run)
        return found

    def rename_operators(self, uids: Mapping[str, str]) -> None:
        """Has stores belong to operators with other uids, before any is used; the next version says so."""
        self._stores = {(uids.get(uid, uid), name): store for (uid, name), store in self._stores.items()}
        self._ranges = {uids.get(uid, uid): hashes for uid, hashes in self._ranges.items()}
        self._owners = {uids.get(uid, uid): owner for uid, owner in self._owners.items()}
        self.ref = None

    def fill(self, tables: Iterable[ExportedTable], version: NewVersion) -> None:
        """Puts what exported tables hold into stores, which are empty; ``version`` is written next."""
        importer = Importer(self._storage, version, self._loader)
        for table in tables:
            hashes = self._hashes_of(table.uid, table.store)
            runs = importer.runs(table, hashes)
            self._stores[table.uid, table.store] = RunStore(table.store, hashes, runs, partition=self._partition)

    def pretend(self, heads: Iterable[RunHead]) -> None:
        """Puts runs without rows into stores, which say what stored ones say: for who only asks what is stored."""
        runs: dict[StoreKey, list[Run]] = {}
        for head in heads:
            empty = Section(pa.RecordBatch.from_pylist([], head.schema))
            hashes = self._hashes_of(head.uid, head.store)
            runs.setdefault((head.uid, head.store), []).append(Run(empty, without_rows(head.meta), hashes))
        for (uid, name), found in runs.items():
            hashes = self._hashes_of(uid, name)
            self._stores[uid, name] = RunStore(name, hashes, found, partition=self._partition)

    def operator(self, uid: str) -> HashMapOperatorStates:
        """The state of the operator with that uid in this task."""
        state = self._operators.get(uid)
        if state is None:
            owner = self._owners[uid]
            is_restored = owner.before is not None
            state = HashMapOperatorStates(
                uid,
                lambda name: self.store(uid, name),
                owner.kinds,
                is_restored=is_restored,
                stored=lambda: self._stored(uid),
            )
            self._operators[uid] = state
        return state

    def store(self, uid: str, name: str) -> RunStore:
        """A store of an operator; empty when nothing was ever put into it."""
        key = (uid, name)
        if key not in self._stores:
            self._stores[key] = RunStore(name, self._hashes_of(uid, name), partition=self._partition)
        return self._stores[key]

    def _stored(self, uid: str) -> Sequence[str]:
        return sorted(name for (of, name), store in self._stores.items() if of == uid and store.runs)

    def size_in_bytes(self) -> int:
        """How many bytes the runs of all stores take, in all files; of what is shared the first task says."""
        sections = {
            (run.section.file, run.section.offset): run.section.size
            for (uid, name), store in self._stores.items()
            if not (self._partition and is_broadcast(name) and self._shares(uid))
            for run in store.runs
        }
        return sum(sections.values())

    def uids(self) -> list[str]:
        """The operators that have state in this version, sorted."""
        return sorted({uid for (uid, _), store in self._stores.items() if store.runs})

    def snapshot(self, epoch: int, generation: int, inline_threshold: int) -> VersionRef:
        """Writes what has changed and returns the new version, or the old one when nothing has changed.

        The operators must have ended the epoch. The same changes give the same bytes under the same name. A version
        whose new and inline parts, with the index, are at most ``inline_threshold`` bytes is held in the reference.
        """
        self._let_go_of_surplus()
        is_changed = any(store.changed for store in self._stores.values())
        if self.ref is not None and not is_changed and self._has_digests(self.ref):
            return self.ref
        most_inside = inline_threshold // PART_INSIDE
        is_first = self._partition == 0
        sharing = SharedRuns(epoch, generation, self._stage, is_first, most_inside, self._storage, self._loader)
        shared = tuple((uid, sharing.place(uid, runs)) for uid, runs in self._shared_runs())
        owned = {uid: self._owned_by(uid) for uid in self.uids()}
        image = _VersionImage(self._stage, self._partition, owned)
        chunks = image.build(sorted(self._stores.items()))
        if image.size <= inline_threshold:
            ref = self._inline_version(image, chunks, epoch)
        else:
            ref = self._file_version(image, chunks, epoch, generation)
        ref = replace(ref, shared=shared)
        for store in self._stores.values():
            store.changed = False
        self.ref = ref
        return ref

    def _shares(self, uid: str) -> bool:
        """Whether an operator has its broadcast state in common with the other tasks."""
        return uid in self._owners and self._owners[uid].shares

    def _shared_runs(self) -> Iterator[tuple[str, list[tuple[str, Run]]]]:
        """By operator, the runs that all subtasks have alike, each with its store."""
        for uid in filter(self._shares, self.uids()):
            stores = [(name, self._stores[of, name]) for of, name in sorted(self._stores) if of == uid]
            runs = [(name, run) for name, store in stores for run in store.runs if is_alike(name, run.meta)]
            if runs:
                yield uid, runs

    def _has_digests(self, ref: VersionRef) -> bool:
        """Whether a version tells what others are to have alike; those that earlier releases wrote do not."""
        known = dict(ref.shared)
        return all(uid in known for uid, _ in self._shared_runs())

    def adopt(self, result: CompactionResult) -> bool:
        """Puts the outcome of a compaction in the place of the runs that it merged; only between two epochs.

        Returns:
            False when these runs are not all there (any more): the outcome is then of no use.
        """
        run = None if result.run is None else self._run(result.run, result.file, self._loader(result.file))
        return result.adopt_into(self.store(result.uid, result.store), run)

    def close(self) -> None:
        """Lets go of the files."""
        self._maps.clear()

    def _owned_by(self, uid: str) -> HashRange:
        """The hashes of an operator's keys that this task owns; none for an operator that is not here."""
        return self._ranges.get(uid, _NO_HASHES)

    def _hashes_of(self, uid: str, store: str) -> HashRange:
        """The hashes of the keys whose rows count in a store; all where its rows belong to the task, not to keys."""
        owned = self._owned_by(uid)
        return owned if owned == _NO_HASHES or kind_of_store(store) is None else ALL_HASHES

    def _inline_version(self, image: _VersionImage, chunks: Sequence[bytes | pa.Buffer], epoch: int) -> VersionRef:
        data = b"".join(memoryview(chunk) for chunk in chunks)
        whole = MappedFile(pa.py_buffer(data))
        for section, offset in image.added:
            section.moved_to("", offset, lambda: whole)
        return VersionRef(self._stage, self._partition, epoch, inline=data, files=tuple(sorted(image.files)))

    def _file_version(
        self, image: _VersionImage, chunks: Sequence[bytes | pa.Buffer], epoch: int, generation: int
    ) -> VersionRef:
        name = str(VersionName(epoch, generation, self._stage, self._partition, image.digest))
        self._storage.write(name, chunks)
        for section, offset in image.added:
            section.moved_to(name, offset, self._loader(name))
        files = tuple(sorted({*image.files, name}))
        self._forget_maps(files)
        return VersionRef(self._stage, self._partition, epoch, name=name, files=files)

    def _read_version(self, ref: VersionRef, held: dict[StoreKey, dict[int, list[Run]]]) -> bool:
        """Adds the runs of a version, by its partition; returns whether it belonged to the same keys."""
        if ref.is_empty:
            return False
        load = _inline_loader(ref.inline) if ref.inline else self._loader(ref.name)
        index = read_index(load(), ref)
        for key, run in self._read_runs(index, ref, load):
            restricted = run.restricted(self._hashes_of(*key))
            if restricted is not None:
                held.setdefault(key, {}).setdefault(ref.partition, []).append(restricted)
        return all(tuple(owned) == self._owned_by(uid) for uid, owned in index["owned"].items())

    def _read_runs(
        self, index: dict[str, Any], ref: VersionRef, load: Callable[[], MappedFile]
    ) -> Iterator[tuple[StoreKey, Run]]:
        for entry in index["runs"]:
            uid, store = entry["uid"], entry["store"]
            name = ref.name if entry["file"] < 0 else index["files"][entry["file"]]
            whole = self._run(entry, name, load if entry["file"] < 0 else self._loader(name))
            owned = tuple(index["owned"][uid]) if kind_of_store(store) is None else ALL_HASHES
            run = whole.restricted(owned)
            if run is not None:
                yield (uid, store), run

    def _run(self, entry: dict[str, Any], name: str, load: Callable[[], MappedFile]) -> Run:
        return run_of_entry(entry, self._section_of(entry, name, load))

    def _loader(self, name: str) -> Callable[[], MappedFile]:
        return lambda: self._map(name)

    def _map(self, name: str) -> MappedFile:
        file = self._maps.get(name)
        if file is None:
            try:
                file = self._maps[name] = self._storage.map(name)
            except (FileNotFoundError, IsADirectoryError) as error:
                raise StateCorruptedError(f"the state file {name} is missing") from error
            except OSError as error:
                # A function of the user may have asked for state, and is not what failed.
                raise InfrastructureError(f"the state file {name} cannot be read: {error}") from error
        return file

    def _forget_maps(self, files: Sequence[str]) -> None:
        self._maps = {name: file for name, file in self._maps.items() if name in files}

    def _let_go_of_surplus(self) -> None:
        surplus = {name for name, file in self._maps.items() if file.is_surplus}
        if not surplus:
            return
        for store in self._stores.values():
            for run in store.runs:
                if run.section.file in surplus:
                    run.section.let_go()
        self._maps = {name: file for name, file in self._maps.items() if name not in surplus}


class _VersionImage:
    """The bytes of a version: the sections that no file holds yet, and the index of all runs."""

    def __init__(self, stage: int, partition: int, owned: Mapping[str, HashRange]) -> None:
        self._index: dict[str, Any] = {
            "format": FORMAT,
            "stage": stage,
            "partition": partition,
            "owned": {uid: list(hashes) for uid, hashes in owned.items()},
        }
        self.files: set[str] = set()
        self.added: list[tuple[Section, int]] = []

    def build(self, stores: Sequence[tuple[StoreKey, RunStore]]) -> Sequence[bytes | pa.Buffer]:
        """All pieces of the file. Sets ``size``, ``digest``, ``added`` and ``files``."""
        runs = [(key, run) for key, store in stores for run in store.runs]
        self.files = {run.section.file for _, run in runs if run.section.file}
        names = sorted(self.files)
        writer = ImageWriter()
        entries = [self._entry(key, run, writer, names) for key, run in runs]
        chunks = writer.finish({**self._index, "files": names, "runs": entries})
        self.size, self.digest = writer.size, writer.digest
        return chunks

    def _entry(self, key: StoreKey, run: Run, writer: ImageWriter, names: list[str]) -> dict[str, Any]:
        section = run.section
        if section.file:
            place = {"file": names.index(section.file), **section.describe(section.offset)}
        else:
            offset = writer.add(section)
            self.added.append((section, offset))
            place = {"file": -1, **section.describe(offset)}
        return {"uid": key[0], "store": key[1], **entry_of_run(run), **place}


def _ranges(operators: Mapping[str, StateOwner], partition: int) -> dict[str, HashRange]:
    """The hashes that a partition owns of each operator that has so many subtasks and key groups."""
    return {
        uid: hash_bounds_of_partition(partition, owner.parallelism, owner.max_parallelism)
        for uid, owner in operators.items()
        if partition < owner.parallelism
    }


def _inline_loader(data: bytes) -> Callable[[], MappedFile]:
    whole = MappedFile(pa.py_buffer(data))
    return lambda: whole


class HashMapBackend(StateBackendPlugin):
    """State in columns, in files that are mapped into memory; only what has changed is written."""

    def sections(self, storage: Folder) -> SectionOf:
        """What opens the sections that an index describes."""
        return Section.stored

    def open(
        self,
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
    ) -> HashMapTaskStates:
        return HashMapTaskStates.open(storage, refs, stage, partition, operators, self.sections(storage))

    def export_tables(self, storage: Folder, ref: VersionRef, now: int) -> Iterator[ExportedTable]:
        if not ref.is_empty:
            yield from exported(HashMapTaskStates.stored_runs(storage, ref, self.sections(storage)), now)

    def heads(self, storage: Folder, ref: VersionRef) -> Iterator[RunHead]:
        if not ref.is_empty:
            stores = HashMapTaskStates.stored_runs(storage, ref, self.sections(storage))
            for (uid, store), runs in stores.items():
                yield from (RunHead(uid, store, run.meta, run.section.schema) for run in runs)

    def import_tables(
        self, storage: Folder, tables: Iterable[ExportedTable], version: NewVersion, operators: Mapping[str, StateOwner]
    ) -> VersionRef:
        task = HashMapTaskStates(storage, version.stage, version.partition, operators)
        task.fill(tables, version)
        return task.snapshot(version.epoch, version.generation, version.inline_threshold)

    def rename_operators(
        self,
        storage: Folder,
        ref: VersionRef,
        uids: Mapping[str, str],
        version: NewVersion,
        operators: Mapping[str, StateOwner],
    ) -> VersionRef:
        task = HashMapTaskStates.open(
            storage, [ref], version.stage, version.partition, operators, self.sections(storage)
        )
        task.rename_operators(uids)
        return task.snapshot(version.epoch, version.generation, version.inline_threshold)

    def verify(self, storage: Folder, ref: VersionRef) -> None:
        for runs in HashMapTaskStates.stored_runs(storage, ref, self.sections(storage)).values():
            for run in runs:
                run.section.verify()

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> list[CompactionTask]:
        return plan_compaction(storage, ref, now, generation, event_times=event_times)

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        return run_compaction(storage, work)
