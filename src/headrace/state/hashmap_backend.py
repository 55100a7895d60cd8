"""``HashMapBackend``: keeps runs in state files, merges them beside the epochs, and exports their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError
from headrace.state.backend import DEFAULT_BACKEND, StateBackendPlugin, StateOwner
from headrace.state.compaction import CompactionResult, CompactionTask, adopt, plan_compaction, run_compaction
from headrace.state.exported_tables import ExportedTable, Importer, exported
from headrace.state.keyed.backend import KeyedStateBackend
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import hash_bounds_of_partition
from headrace.state.operator_state import (
    PART_INSIDE,
    OperatorStateBackend,
    Redistribution,
    StoredRun,
    digest_of_runs,
    is_alike,
    is_for_all,
)
from headrace.state.protocols import KEYED, STORE_PREFIX, StateKinds, is_broadcast, kind_of_store
from headrace.state.runs import ALL_HASHES, HashRange, Run, RunStore
from headrace.state.runs.merge_input import LOW, without_rows
from headrace.state.runs.sections import Section
from headrace.state.state_file import (
    FORMAT,
    ImageWriter,
    NewVersion,
    RunHead,
    SectionOf,
    SharedName,
    StateFiles,
    StoreKey,
    VersionName,
    VersionRef,
    entry_of_rows,
    inline_loader,
    read_version,
    run_of_entry,
)
from headrace.state.timers import PROCESSING, HashMapTimers, store_of_timers
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
        # Windows over columns keep neither keyed states nor timers, so both are made at their first use.
        self._codec: KeyCodec | None = None
        self._keyed: KeyedStateBackend | None = None
        self._timers: HashMapTimers | None = None
        self._clock = 0
        self._watermark = MIN_WATERMARK

    def bind_key_codec(self, codec: KeyCodec) -> None:
        """Says how the operator's keys are stored; before :attr:`keyed` or :attr:`timers` is used. Once is enough.

        Raises:
            InvalidProgramError: when the inputs of the operator have keys of different types.
        """
        if self._codec is None:
            self._codec = codec
        elif self._codec.to_json() != codec.to_json():
            raise InvalidProgramError(
                f"the inputs of operator {self.uid!r} have keys of different types: {self._codec.type} and {codec.type}"
            )

    @property
    def keyed(self) -> KeyedStateBackend:
        """The keyed states."""
        if self._keyed is None:
            if self._codec is None:
                raise StateError(f"the operator {self.uid!r} has no keys, so it has no keyed state and no timers")
            self._keyed = KeyedStateBackend(self._codec, self._store)
            self._keyed.begin_epoch(self._clock, self._watermark)
        return self._keyed

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
        self._keyed = self._timers = None
        return rows

    def earliest_processing_time(self) -> int | None:
        """Return when the earliest timer in processing time is due (or earlier); None when there is none."""
        if self._timers is None and (self._codec is None or not self._store(_PROCESSING_TIMERS).runs):
            return None
        return self.timers.earliest_processing_time()

    def begin_epoch(self, watermark: int, processing_time: int) -> None:
        """Starts an epoch: event time has come to ``watermark``, the clock reads ``processing_time``."""
        self._watermark, self._clock = watermark, processing_time
        if self._keyed is not None:
            self._keyed.begin_epoch(processing_time, watermark)
        if self._timers is not None:
            self._timers.begin_epoch(watermark)

    def end_epoch(self) -> None:
        """Ends the epoch: what has changed becomes runs.

        Raises:
            InvalidTypeError: when something cannot be stored; it names the operator.
        """
        for states in (self._keyed, self._without_keys):
            if states is not None:
                try:
                    states.end_epoch()
                except InvalidTypeError as error:
                    raise InvalidTypeError(f"operator {self.uid!r}, {error}") from error
        if self._timers is not None:
            self._timers.end_epoch()
        if self._keyed is not None:
            self._keyed.forget_keys()


_NO_HASHES: HashRange = (0, 0)

_PROCESSING_TIMERS: Final = store_of_timers(PROCESSING)


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
        # The hashes that the partition owns of each operator that has so many subtasks and key groups.
        self._ranges = {
            uid: hash_bounds_of_partition(partition, owner.parallelism, owner.max_parallelism)
            for uid, owner in operators.items()
            if partition < owner.parallelism
        }
        self._files = StateFiles(storage)
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
        is_same = [task._read_version(ref, held) for ref in refs]
        runs = {key: [run for found in by_partition.values() for run in found] for key, by_partition in held.items()}
        for uid, owner in operators.items():
            if owner.before is not None and partition < owner.parallelism:
                stores = {name: found for (of, name), found in held.items() if of == uid and kind_of_store(name)}
                dealt = Redistribution(owner.before, owner.parallelism, partition, owner.shares).runs(stores)
                runs |= {(uid, name): found for name, found in dealt.items()}
        for (uid, name), found in runs.items():
            task._stores[uid, name] = RunStore(name, task._hashes_of(uid, name), found, partition=partition)
        if is_same == [True] and refs[0].partition == partition and refs[0].stage == stage:
            task.ref = refs[0]
        return task

    def rename_operators(self, uids: Mapping[str, str]) -> None:
        """Has stores belong to operators with other uids, before any is used; the next version says so."""
        self._stores = {(uids.get(uid, uid), name): store for (uid, name), store in self._stores.items()}
        self._ranges = {uids.get(uid, uid): hashes for uid, hashes in self._ranges.items()}
        self._owners = {uids.get(uid, uid): owner for uid, owner in self._owners.items()}
        self.ref = None

    def fill(self, tables: Iterable[ExportedTable], version: NewVersion) -> None:
        """Puts what exported tables hold into stores, which are empty; ``version`` is written next."""
        importer = Importer(self._storage, version, self._files.loader)
        for table in tables:
            hashes = self._hashes_of(table.uid, table.store)
            runs = importer.runs(table, hashes)
            self._stores[table.uid, table.store] = RunStore(table.store, hashes, runs, partition=self._partition)

    def pretend(self, heads: Iterable[RunHead]) -> None:
        """Puts runs without rows into stores, with the descriptions of stored ones, for readers of these alone."""
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
                partial(self.store, uid),
                owner.kinds,
                is_restored=is_restored,
                stored=partial(self._stored, uid),
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

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return how many bytes the runs of each store take, in all files; of what is shared the first task says."""
        found: dict[str, dict[str, int]] = {}
        for (uid, name), store in self._stores.items():
            if store.runs and not (self._partition and is_broadcast(name) and self._shares(uid)):
                # After a change of parallelism several runs may be parts of one section.
                sections = {(run.section.file, run.section.offset): run.section.size for run in store.runs}
                found.setdefault(uid, {})[name] = sum(sections.values())
        return found

    def snapshot(self, epoch: int, generation: int, inline_threshold: int) -> VersionRef:
        """Writes what has changed and returns the new version, or the old one when nothing has changed.

        The operators must have ended the epoch. The same changes give the same bytes under the same name. A version
        whose new and inline parts, with the index, are at most ``inline_threshold`` bytes is held in the reference.
        """
        if surplus := self._files.drop_surplus():
            for run in chain.from_iterable(map(attrgetter("runs"), self._stores.values())):
                if run.section.file in surplus:
                    run.section.release()
        is_changed = any(map(attrgetter("changed"), self._stores.values()))
        if self.ref is not None and not is_changed and self._has_digests(self.ref):
            return self.ref
        shared: list[tuple[str, str]] = []
        for uid, runs in self._shared_runs():
            digest = self._place_shared(uid, runs, epoch, generation, inline_threshold // PART_INSIDE)
            shared.append((uid, digest))
        self.ref = replace(self._write_version(epoch, generation, inline_threshold), shared=tuple(shared))
        for store in self._stores.values():
            store.changed = False
        return self.ref

    def _write_version(self, epoch: int, generation: int, inline_threshold: int) -> VersionRef:
        writer, added = ImageWriter(), list[tuple[Section, int]]()
        chunks, files = self._image(writer, added)
        ref = VersionRef(self._stage, self._partition, epoch)
        if writer.size <= inline_threshold:
            data = b"".join(map(memoryview, chunks))
            name, load = "", inline_loader(data)
            ref = replace(ref, inline=data, files=tuple(sorted(files)))
        else:
            name = str(VersionName(epoch, generation, self._stage, self._partition, writer.digest))
            load = self._files.loader(name)
            self._storage.write(name, chunks)
            ref = replace(ref, name=name, files=tuple(sorted({*files, name})))
        for section, offset in added:
            section.moved_to(name, offset, load)
        if name:
            self._files.keep(ref.files)
        return ref

    def _image(
        self, writer: ImageWriter, added: list[tuple[Section, int]]
    ) -> tuple[Sequence[bytes | pa.Buffer], set[str]]:
        """All pieces of a version: the sections that no file holds yet, and the index of all runs.

        Returns:
            The pieces, and the files that other runs are in. What is new, and where, is put into ``added``.
        """
        runs = [(key, run) for key, store in sorted(self._stores.items()) for run in store.runs]
        files = {run.section.file for _, run in runs if run.section.file}
        names = sorted(files)
        entries = []
        owned = {}
        for (uid, store), run in runs:
            owned[uid] = list(self._ranges.get(uid, _NO_HASHES))
            section = run.section
            file, offset = names.index(section.file) if section.file else -1, section.offset
            if file < 0:
                offset = writer.add(section)
                added.append((section, offset))
            place = {"file": file, **section.describe(offset)}
            entries.append({"uid": uid, "store": store, **entry_of_rows(run), **place})
        about = {"format": FORMAT, "stage": self._stage, "partition": self._partition, "files": names, "runs": entries}
        return writer.finish({**about, "owned": owned}), files

    def _shares(self, uid: str) -> bool:
        """Return whether an operator has its broadcast state in common with the other tasks."""
        return uid in self._owners and self._owners[uid].shares

    def _shared_runs(self) -> Iterator[tuple[str, list[tuple[str, Run]]]]:
        """By operator, the runs that all subtasks have alike, each with its store."""
        for uid in filter(self._shares, sorted(self._owners)):
            stores = [(name, self._stores[of, name]) for of, name in sorted(self._stores) if of == uid]
            runs = [(name, run) for name, store in stores for run in store.runs if is_alike(name, run.meta)]
            if runs:
                yield uid, runs

    def _has_digests(self, ref: VersionRef) -> bool:
        """Return whether a version has digests of what is shared; one imported from a savepoint has none."""
        known = dict(ref.shared)
        return all(uid in known for uid, _ in self._shared_runs())

    def _place_shared(self, uid: str, runs: Sequence[StoredRun], epoch: int, generation: int, most_inside: int) -> str:
        """Puts the runs that are in no file for all subtasks into one, unless they are small.

        The first subtask writes the file; the others refer to it by the digest of what they would have written.

        Args:
            uid: the operator.
            runs: all of its runs that are alike, in the order of their stores.
            epoch: the epoch.
            generation: that of the job manager.
            most_inside: up to how many bytes of an operator stay inside the version.

        Returns:
            A digest of what all of them hold, wherever they lie.
        """
        loose = [run.section for _, run in runs if not is_for_all(run.section.file)]
        writer = ImageWriter()
        offsets = [writer.add(section) for section in loose]
        if not loose or writer.size <= most_inside:
            for section in loose:
                section.taken_along()
            return digest_of_runs(runs)
        described = [section.describe(offset) for section, offset in zip(loose, offsets, strict=True)]
        chunks = writer.finish({"shared": uid, "stage": self._stage, "runs": described})
        name = str(SharedName(epoch, generation, self._stage, SharedName.owner_of(uid), writer.digest))
        if not self._partition:
            self._storage.write(name, chunks)
        for section, offset in zip(loose, offsets, strict=True):
            section.moved_to(name, offset, self._files.loader(name))
        return digest_of_runs(runs)

    def adopt(self, result: CompactionResult) -> bool:
        """Puts the outcome of a compaction in the place of the runs that it merged; only between two epochs.

        Returns:
            False when these runs are not all there (any more): the outcome is then of no use.
        """
        task, entry = result.task, result.run
        run = None
        if entry is not None:
            run = run_of_entry(entry, self._section_of(entry, result.file, self._files.loader(result.file)))
        return adopt(self.store(task.uid, task.store), task.runs, run, is_oldest=task.is_oldest)

    def close(self) -> None:
        """Lets go of the files."""
        self._files.close()

    def _hashes_of(self, uid: str, store: str) -> HashRange:
        """The hashes of the keys whose rows count in a store; all where its rows belong to the task, not to keys."""
        owned = self._ranges.get(uid, _NO_HASHES)
        return owned if owned == _NO_HASHES or kind_of_store(store) is None else ALL_HASHES

    def _read_version(self, ref: VersionRef, held: dict[StoreKey, dict[int, list[Run]]]) -> bool:
        """Adds the runs of a version, by its partition; returns whether it belonged to the same keys."""
        if ref.is_empty:
            return False
        version = read_version(self._files, ref, self._section_of)
        for key, run in version.runs:
            restricted = run.restricted(self._hashes_of(*key))
            if restricted is not None:
                held.setdefault(key, {}).setdefault(ref.partition, []).append(restricted)
        return all(owned == self._ranges.get(uid, _NO_HASHES) for uid, owned in version.owned.items())


class HashMapBackend(StateBackendPlugin):
    """State in columns, in files that are mapped into memory; only what has changed is written."""

    def sections(self, storage: Folder) -> SectionOf:
        """The opener of the sections that an index describes."""
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

    def stored_runs(self, storage: Folder, ref: VersionRef) -> dict[StoreKey, list[Run]]:
        """The runs of a version by operator and store, each for the keys that its partition owned."""
        return {} if ref.is_empty else read_version(StateFiles(storage), ref, self.sections(storage)).by_store()

    def export_tables(self, storage: Folder, ref: VersionRef, now: int) -> Iterator[ExportedTable]:
        yield from exported(self.stored_runs(storage, ref), now)

    def heads(self, storage: Folder, ref: VersionRef) -> Iterator[RunHead]:
        for (uid, store), runs in self.stored_runs(storage, ref).items():
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
        for runs in self.stored_runs(storage, ref).values():
            for run in runs:
                run.section.verify()

    def is_worth_merging(self, store: str, runs: Sequence[Run]) -> bool:
        """Return whether runs of a store are worth merging which would not be for every backend."""
        return False

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> list[CompactionTask]:
        sections = self.sections(storage)
        return plan_compaction(storage, ref, now, generation, self.is_worth_merging, event_times, sections)

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        return run_compaction(storage, work)


HASHMAP: Final = HashMapBackend(DEFAULT_BACKEND)
