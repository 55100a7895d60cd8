"""``SavepointWriter``: a savepoint that no job has taken, of new state, or after the model of another one."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Self

from headrace.checkpoint.manifest import Manifest, OperatorSnapshot, PartitionSnapshot, StageSnapshot
from headrace.common import options as config
from headrace.common.configuration import Configuration
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidProgramError, SavepointError, expect, refused
from headrace.common.job_id import JobID
from headrace.datastream.streams.stream import checked_text
from headrace.savepoint.disposal import end_progress, give_up
from headrace.savepoint.metadata import IN_PROGRESS, METADATA, SavepointMetadata, TableFile
from headrace.savepoint.stored_job import StoredJob, fixed, open_job
from headrace.savepoint.tables import write_source_file, write_table
from headrace.savepoint.tasks import with_tables
from headrace.savepoint.uid_mapping import UidMapping
from headrace.state.keys.hashing import check_parallelism
from headrace.state.protocols import NO_STATE, StateKinds
from headrace.state.state_file import VersionRef
from headrace.state_processor.reader import SavepointReader
from headrace.state_processor.state_columns import StateColumns
from headrace.state_processor.state_tables import (
    StatePlacement,
    StateTransformation,
    checked_rows,
    of_one_domain,
    write_rows,
)
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage


class SavepointWriter:
    """Writes a canonical savepoint from which jobs start as from any other.

    Java's ``SavepointWriter`` is the model; PyFlink has none. Methods that change what will be written return the
    writer itself.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> TOTAL = ValueStateDescriptor("total", Types.LONG())
        >>> totals = OperatorTransformation.from_tables(Types.STRING())
        >>> totals = totals.with_state(TOTAL, {"key": ["ann", "bob"], "value": [7, 8]})
        >>> folder = tempfile.mkdtemp()
        >>> first = SavepointWriter.new_savepoint().with_operator("totals", totals).write(f"{folder}/first")
        >>> writer = SavepointWriter.from_existing_savepoint(first)
        >>> table = writer.reader.read_keyed_state("totals", "total").to_pandas()
        >>> table.loc[table.key == "bob", "value"] = 9
        >>> repaired = writer.replace_table("totals", "state/total", table).write(f"{folder}/repaired")
        >>> SavepointReader.read(repaired).read_keyed_state("totals", "total").sort_by("key").to_pylist()
        [{'key': 'ann', 'value': 7}, {'key': 'bob', 'value': 9}]
    """

    def __init__(self, manifest: Manifest, job: StoredJob, options: Mapping[str, str]) -> None:
        self._manifest = manifest
        self._job = job
        self._options = options
        self._configuration = Configuration()
        self._carried = {uid: uid for uid in known_uids(manifest)}  # by the uid there, that here
        self._given: dict[str, StateTransformation] = {}
        self._replaced: dict[tuple[str, str], tuple[StateColumns, Any]] = {}

    @classmethod
    def new_savepoint(
        cls, max_parallelism: int | None = None, options: Mapping[str, str] = MappingProxyType({})
    ) -> Self:
        """A savepoint of a job that has not read anything: sources begin where they are configured to.

        Args:
            max_parallelism: how many key groups it has; what ``pipeline.max-parallelism`` is by default when left out.
                A job that starts from it may have another number.
            options: how object stores are reached, as the options of a configuration say it.

        Raises:
            InvalidProgramError: when the number is out of bounds.
        """
        groups = config.MAX_PARALLELISM.default if max_parallelism is None else max_parallelism
        expect(groups, int, "new_savepoint")
        check_parallelism(1, groups)
        manifest = empty_manifest(groups)
        return cls(manifest, StoredJob("the new savepoint", manifest), options)

    @classmethod
    def from_existing_savepoint(
        cls, path: str | os.PathLike[str], options: Mapping[str, str] = MappingProxyType({})
    ) -> Self:
        """A savepoint after the model of another one, which is not touched.

        Args:
            path: the savepoint, or its URI on an object store or HDFS; or the checkpoint directory of a job, whose
                newest checkpoint counts; or the manifest of an older checkpoint that the directory retains. The job may
                run meanwhile.
            options: how object stores are reached, as the options of a configuration say it.

        Raises:
            SavepointError: when there is none, or a damaged one.
            CheckpointError: when the manifest of the checkpoint is damaged.
            StateCorruptedError: when a file of the checkpoint is missing.
        """
        job = fixed(open_job(path, options))
        return cls(job.manifest, job, options)

    @property
    def reader(self) -> SavepointReader:
        """Reads what the writer was made from."""
        return SavepointReader(self._job)

    def with_configuration(self, configuration: Configuration) -> Self:
        """Says how the jobs run that make state by functions, and into how many files the state of an operator goes.

        That is ``parallelism.default``; and of jobs ``headrace.runtime`` and all that it takes.

        Raises:
            InvalidProgramError: when operators have been given state already.
        """
        expect(configuration, Configuration, "with_configuration")
        if self._given:
            raise InvalidProgramError("the configuration comes first: call with_configuration() before with_operator()")
        self._configuration = Configuration(configuration)
        return self

    def with_operator(self, uid: str, transformation: StateTransformation) -> Self:
        """Gives an operator state, which has none yet.

        Args:
            uid: the operator, as the program names it by ``uid()``.
            transformation: its state.

        Raises:
            InvalidProgramError: when it has state already, is given none, or the uid is empty.
        """
        checked_text("uid", uid)
        expect(transformation, StateTransformation, "with_operator")
        if not transformation.state_kinds:
            raise refused(f"the operator {uid!r} is given no state: call with_state(), say, on what from_tables() gave")
        if uid in self._given or self._has_state(uid):
            raise InvalidProgramError(
                f"the operator {uid!r} has state already: call remove_operator({uid!r}) first to have all of it "
                "replaced, or replace_table() for one of its states"
            )
        if uid not in places(self._manifest):
            parallelism = self._configuration.get(config.PARALLELISM) or transformation.parallelism
            self._manifest = with_operator(self._manifest, uid, min(parallelism, self._manifest.max_parallelism))
        self._manifest = with_kinds(self._manifest, uid, transformation.state_kinds)
        self._given[uid] = transformation
        return self

    def replace_table(self, uid: str, store: str, data: Any) -> Self:
        """Gives one state of an operator other rows; types stay, and so do its other states and timers.

        Args:
            uid: the operator.
            store: the state, as :meth:`SavepointReader.states` names it: ``state/total``, ``timers/event``.
            data: its rows, all of them, with the columns that :meth:`SavepointReader.read_table` gives. Timers may have
                ``domain`` as well, as :meth:`SavepointReader.read_timers` gives it, where all are of that time.

        Raises:
            SavepointError: when there is no such state, columns are missing or unknown, or rows are no such state.
            InvalidTypeError: when ``data`` is no table.
        """
        self._check_known(uid)
        before = next((old for old, new in self._carried.items() if new == uid), None)
        if before is None:
            raise SavepointError(f"the operator {uid!r} has the state that with_operator() gave it, or none any more")
        stored = list(self._job.tables((before, store)))
        if not stored:
            self.reader.read_table(before, store)  # its error says what there is
        widest = max(stored, key=lambda table: len(table.schema))
        columns = StateColumns.of_stored(widest)
        try:
            self._replaced[uid, store] = columns, checked_rows(columns, of_one_domain(store, data))
        except SavepointError as error:
            raise SavepointError(f"operator {uid!r}: {error}") from error
        return self

    def remove_operator(self, uid: str) -> Self:
        """Leaves out the state of an operator, or the position of a source, which then begins anew.

        An operator that gets state again goes on from the event time that it has come to. A job that had come to its
        end, and has a source that begins anew, begins with event time as well.

        Raises:
            SavepointError: when there is no such operator.
        """
        self._check_known(uid)
        self._given.pop(uid, None)
        self._carried = {old: new for old, new in self._carried.items() if new != uid}
        self._replaced = {place: rows for place, rows in self._replaced.items() if place[0] != uid}
        self._manifest = without(self._manifest, uid)
        return self

    def change_operator_identifier(self, old_uid: str, new_uid: str) -> Self:
        """Gives an operator, or a source, another uid.

        Raises:
            SavepointError: when there is no operator of the old uid.
            InvalidProgramError: when there is one of the new uid, or that is empty.
        """
        checked_text("new_uid", new_uid)
        self._check_known(old_uid)
        if new_uid in known_uids(self._manifest):
            raise InvalidProgramError(f"there is an operator with uid {new_uid!r} already: rename that first")
        self._manifest = renamed(self._manifest, old_uid, new_uid)
        self._carried = {old: new_uid if new == old_uid else new for old, new in self._carried.items()}
        self._given = {new_uid if uid == old_uid else uid: state for uid, state in self._given.items()}
        self._replaced = {(new_uid if u == old_uid else u, s): rows for (u, s), rows in self._replaced.items()}
        return self

    def write(self, path: str | os.PathLike[str]) -> str:
        """Write it; it is complete, and only then a savepoint, when this returns. When it fails, nothing of it stays.

        Args:
            path: the directory of the savepoint, which must not hold anything yet; or its URI.

        Returns:
            The path.

        Raises:
            SavepointError: when the directory holds something, state cannot be written, or the checkpoint that it is
                made from has output that its job has yet to publish.
            OSError: when a file cannot be written.
        """
        path = os.fspath(path) if isinstance(path, os.PathLike) else path
        expect(path, str, "write")
        folder = open_storage(path, options=self._options)
        self._check_published()
        _begin(folder)
        try:
            self._write(folder)
        except BaseException:
            give_up(folder)
            raise
        end_progress(folder)
        return path

    def _write(self, folder: Folder) -> None:
        given, epochs = self._write_given(folder)
        tables = [*self._write_carried(folder), *given]
        for (uid, _), (columns, rows) in self._replaced.items():
            tables += write_rows(folder, self._place(uid), columns, rows)
        files = tuple(
            write_source_file(folder, self._carried[uid], name, content)
            for uid, name, content in self._job.source_files()
            if uid in self._carried
        )
        epoch = max(self._manifest.epoch, epochs)
        manifest = with_tables(replace(self._manifest, restored_from="", epoch=epoch), tables)
        metadata = SavepointMetadata(manifest, "canonical", tuple(tables), files)
        if not folder.create(METADATA, metadata.to_bytes()):
            raise SavepointError(f"{folder.locate(METADATA)} exists: somebody else has written a savepoint there")

    def _write_carried(self, folder: Folder) -> Iterator[TableFile]:
        for stage, partition, table in self._job.task_tables(None):
            uid = self._carried.get(table.uid)
            if uid is not None and (uid, table.store) not in self._replaced:
                yield write_table(folder, replace(table, uid=uid), stage, partition)

    def _write_given(self, folder: Folder) -> tuple[list[TableFile], int]:
        tables, epochs = list[TableFile](), 0
        for uid, transformation in self._given.items():
            written, taken = transformation.write(folder, self._place(uid), self._configuration)
            tables += written
            epochs = max(epochs, taken)
        return tables, epochs

    def _place(self, uid: str) -> StatePlacement:
        return places(self._manifest)[uid]

    def _has_state(self, uid: str) -> bool:
        return any(uid in stage.operators and stage.operators[uid].state_kinds for stage in self._manifest.stages)

    def _check_published(self) -> None:
        """Output that a job has yet to publish belongs to that job: a job that starts from a copy of it may not."""
        left = sorted({*(commit.sink for commit in self._manifest.pending), *self._manifest.in_progress})
        if left:
            raise SavepointError(
                f"{self._job.location} is the checkpoint of a job that has yet to publish output of {', '.join(left)}: "
                "take a savepoint of the job (headrace savepoint) and begin with that; or, to leave that output to the "
                f"job, call remove_operator({left[0]!r})"
            )

    def _check_known(self, uid: str) -> None:
        known = known_uids(self._manifest)
        if uid not in known:
            near = get_close_matches(uid, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
            raise SavepointError(f"{self._job.location} has no operator with uid {uid!r}: {hint}")


def _begin(folder: Folder) -> None:
    """Take possession of the place of a savepoint: of two that write there one does."""
    _check_empty(folder, frozenset())
    folder.make()
    if not folder.create(IN_PROGRESS, b""):
        raise SavepointError(f"somebody else is just writing a savepoint to {folder}: choose another place")
    try:
        _check_empty(folder, frozenset({IN_PROGRESS}))  # a faster process may have completed one before
    except SavepointError:
        folder.remove(IN_PROGRESS)
        raise


def _check_empty(folder: Folder, own: frozenset[str]) -> None:
    try:
        names = [name for name in folder.names() if name not in own]
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise SavepointError(f"{folder} is a file: choose another place for the savepoint") from error
    if METADATA in names:
        raise SavepointError(f"{folder} holds a savepoint already: choose another place")
    if names:
        raise SavepointError(
            f"{folder} holds {names[0]!r}: choose another place, or remove it if it is left of a savepoint that was "
            "not completed"
        )


def empty_manifest(max_parallelism: int) -> Manifest:
    """A job that has read nothing, and has no operators yet."""
    return Manifest(1, 0, str(JobID()), "bootstrap", max_parallelism, 0, stages=(StageSnapshot(),))


def places(manifest: Manifest) -> dict[str, StatePlacement]:
    """By uid, where the operators of a manifest are."""
    return {
        uid: StatePlacement(uid, index, operator.parallelism, operator.max_parallelism)
        for index, stage in enumerate(manifest.stages)
        for uid, operator in stage.operators.items()
    }


def known_uids(manifest: Manifest) -> list[str]:
    """The uids of all sources, and of all known operators."""
    return sorted({*manifest.sources, *(uid for stage in manifest.stages for uid in stage.operators)})


def with_operator(manifest: Manifest, uid: str, parallelism: int) -> Manifest:
    """A manifest with an operator that it does not know, in a stage of its own: it has reached no event time yet."""
    operator = OperatorSnapshot(parallelism, manifest.max_parallelism)
    partitions = tuple(PartitionSnapshot(None) for _ in range(parallelism))
    return replace(manifest, stages=(*manifest.stages, StageSnapshot({uid: operator}, partitions)))


def with_kinds(manifest: Manifest, uid: str, kinds: StateKinds) -> Manifest:
    """A manifest that says which kinds of state an operator has; where it has come in event time stays."""
    stages = tuple(
        _with_kinds(index, stage, uid, kinds) if uid in stage.operators else stage
        for index, stage in enumerate(manifest.stages)
    )
    return replace(manifest, stages=stages)


def _with_kinds(index: int, stage: StageSnapshot, uid: str, kinds: StateKinds) -> StageSnapshot:
    operators = {**stage.operators, uid: replace(stage.operators[uid], state_kinds=kinds)}
    held = [operator.parallelism for operator in operators.values() if operator.state_kinds]
    partitions = (
        replace(part, version=(part.version or VersionRef(index, number, 0)) if held else None)
        for number, part in enumerate(stage.partitions)
    )
    return StageSnapshot(operators, tuple(partitions))


def without(manifest: Manifest, uid: str) -> Manifest:
    """A manifest without the state, the position and the output of an operator.

    Where it has come in event time stays, for one that gets state of its own under the uid.
    """
    edited = with_kinds(manifest, uid, NO_STATE)
    if manifest.finished and uid in manifest.sources:
        edited = _not_finished(edited)
    return replace(
        edited,
        sources={known: source for known, source in edited.sources.items() if known != uid},
        pending=tuple(commit for commit in edited.pending if commit.sink != uid),
        in_progress={known: output for known, output in edited.in_progress.items() if known != uid},
    )


def _not_finished(manifest: Manifest) -> Manifest:
    """A manifest of a job that has something to read again: event time, which had come to its end, begins anew."""

    def begun_anew(partition: PartitionSnapshot) -> PartitionSnapshot:
        known = {uid: reached for uid, reached in partition.progress.items() if reached.watermark != MAX_WATERMARK}
        return replace(partition, progress=known)

    stages = tuple(replace(stage, partitions=tuple(map(begun_anew, stage.partitions))) for stage in manifest.stages)
    return replace(manifest, stages=stages, finished=False)


def renamed(manifest: Manifest, old: str, new: str) -> Manifest:
    """A manifest in which an operator, a source or a sink has another uid."""
    uids = UidMapping({old: new})
    return replace(
        uids.manifest(manifest),
        pending=tuple(replace(commit, sink=uids.of(commit.sink)) for commit in manifest.pending),
        in_progress={uids.of(uid): output for uid, output in manifest.in_progress.items()},
    )
