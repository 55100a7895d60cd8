"""``SavepointReader``: any state of any operator as an Arrow table."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar

import pyarrow as pa

from headrace.checkpoint.manifest import Manifest, OperatorSnapshot
from headrace.common.errors import InvalidTypeError, SavepointError, expect, refused, shown
from headrace.common.typeinfo import DeclaredType, type_from_json
from headrace.savepoint.metadata import TableFile
from headrace.savepoint.stored_job import StatePlace, StoredJob, Verified, open_job, query, read_with_retries, verify
from headrace.savepoint.tables import ENCODED, WINDOW, codec_of_keys, readable
from headrace.state.descriptors import StateDescriptor
from headrace.state.exported_tables import NAMESPACE, ExportedTable
from headrace.state.runs.layout import ENTRY_KEY, EXPIRY, KEY
from headrace.state_processor.state_columns import in_words
from headrace.state_processor.state_tables import check_spark_session

T = TypeVar("T")

TIMERS: Final = "timers/"
_BROADCAST: Final = "broadcast/"
_NO_TIMERS: Final = pa.schema([("domain", pa.string()), ("time", pa.int64()), ("key", pa.null())]).empty_table()

_TAKES_PATTERNS: Final = "__globPaths__"
"""Spark's option (``DataSource.GLOB_PATHS_KEY``) whether paths may be patterns; in these no name can have a colon."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The description of one state of one operator.

    Attributes:
        uid: the operator.
        store: the state: ``state/<name>``, ``namespaced/<name>`` where it is kept by window as well, ``timers/event``,
            ``timers/processing``, ``list/<name>``, ``union/<name>``, ``broadcast/<name>``; else what windows and joins
            call theirs.
        kind: value, list, map, reducing, aggregating, timers, …
        types: the types of keys and values, in words.
        rows: how many rows it has: values, elements of lists, entries of maps, timers.

    Examples:
        >>> from headrace.state_processor import StoredTable
        >>> StoredTable("totals", "state/total", "value", "String → Long", 3).name
        'total'
    """

    uid: str
    store: str
    kind: str
    types: str
    rows: int

    @property
    def name(self) -> str:
        """The name of the state as the program declares it."""
        return self.store.partition("/")[2] or self.store


class SavepointReader:
    """Reads the state of a job from a savepoint, or from its checkpoint directory as of the newest checkpoint.

    Nothing is changed, and the job may run meanwhile. Values are columns of their declared types; where there is no
    type they are pickles, which are not unpickled here. Java's ``SavepointReader`` is the model; PyFlink has none.

    Args:
        job: where everything is.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Configuration, Types
        >>> from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.state_processor import SavepointReader
        >>> COUNT = ValueStateDescriptor("count", Types.LONG())
        >>> class Counts(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(COUNT)
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         return []
        >>> checkpoints = tempfile.mkdtemp()
        >>> settings = {"headrace.runtime": "local", "execution.checkpointing.dir": checkpoints}
        >>> env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        >>> words = env.from_collection(["a", "b", "a"]).uid("words").key_by(lambda word: word, Types.STRING())
        >>> _ = words.process(Counts(), Types.STRING()).uid("counts").print().uid("out")
        >>> _ = env.execute("words")
        >>> reader = SavepointReader.read(checkpoints)
        >>> [(state.uid, state.name, state.types, state.rows) for state in reader.states()]
        [('counts', 'count', 'String → Long', 2)]
        >>> reader.read_keyed_state("counts", "count").sort_by("key").to_pylist()
        [{'key': 'a', 'value': 2}, {'key': 'b', 'value': 1}]
        >>> reader.query("counts", COUNT, "a", Types.STRING())
        2
    """

    def __init__(self, job: StoredJob) -> None:
        if not isinstance(job, StoredJob):
            raise refused(f"a path is read by SavepointReader.read({shown(job)})", InvalidTypeError)
        self._job = job

    @classmethod
    def read(cls, path: str | os.PathLike[str], options: Mapping[str, str] = MappingProxyType({})) -> Self:
        """A reader of a savepoint or of a checkpoint directory.

        Args:
            path: its path, or its URI on an object store or HDFS; or that of the manifest of an older checkpoint that
                the directory retains.
            options: how object stores are reached, as the options of a configuration say it.

        Raises:
            SavepointError: when there is none, or a damaged one.
            CheckpointError: likewise.
            InvalidTypeError: when it is no path.
        """
        place = os.fspath(path) if isinstance(path, os.PathLike) else path
        expect(place, str, "SavepointReader.read")
        if not place.strip():
            raise refused("SavepointReader.read: the path is empty (was it to come from a variable that is not set?)")
        return cls(open_job(place, options))

    @property
    def manifest(self) -> Manifest:
        """The job at the end of the epoch that is read: positions of sources, watermarks, operators, counters."""
        return self._job.manifest

    def operators(self) -> dict[str, OperatorSnapshot]:
        """By uid, the operators that may hold state, with their parallelism and kinds of state."""
        stages = self._job.manifest.stages
        return {uid: operator for stage in stages for uid, operator in stage.operators.items() if operator.state_kinds}

    def states(self) -> list[StoredTable]:
        """All that is stored, by operator and state. Everything is read for it, to be counted."""
        return self._with_retries(_states)

    def read_keyed_state(self, uid: str, name: str) -> pa.Table:
        """A value, list, map, reducing or aggregating state of an operator's keys.

        Returns:
            Columns as ``docs/savepoints.md`` lists them: ``key``, ``value`` and what belongs to the kind of state.

        Raises:
            SavepointError: when there is no such state, or it holds nothing, which is not stored; it names those that
                there are.
        """
        return self.read_table(uid, f"state/{name}")

    def read_window_state(self, uid: str, name: str) -> pa.Table:
        """A state that is kept by key and window, as :meth:`read_keyed_state`, with ``window_start`` and ``_end``."""
        return self.read_table(uid, f"namespaced/{name}")

    def read_list_state(self, uid: str, name: str) -> pa.Table:
        """The elements of an operator's list state, those of all subtasks."""
        return self.read_table(uid, f"list/{name}")

    def read_union_state(self, uid: str, name: str) -> pa.Table:
        """The elements of an operator's union list state, those of all subtasks."""
        return self.read_table(uid, f"union/{name}")

    def read_broadcast_state(self, uid: str, name: str) -> pa.Table:
        """The entries of a broadcast state, once: all subtasks have the same."""
        return self.read_table(uid, f"{_BROADCAST}{name}")

    def read_timers(self, uid: str) -> pa.Table:
        """The timers that are pending, by time: ``domain`` (event or processing), ``time`` in milliseconds, ``key``.

        Returns:
            A table; without rows, and then with a ``key`` of no type, when none are pending.

        Raises:
            SavepointError: when there is no such operator with state.
        """
        found = []
        for domain in ("event", "processing"):
            table = self._table(uid, f"{TIMERS}{domain}")
            if table is not None:
                found.append(table.add_column(0, "domain", pa.array([domain] * table.num_rows, pa.string())))
        if not found and uid not in self.operators():
            known = ", ".join(sorted(self.operators())) or "none"
            raise SavepointError(
                f"{self._job.location} holds no state of an operator with uid {uid!r}: operators with state are {known}"
            )
        if not found:
            return _NO_TIMERS
        return pa.concat_tables(found, promote_options="default").sort_by("time")

    def read_table(self, uid: str, store: str) -> pa.Table:
        """Any state, by its name as :meth:`states` gives it.

        Raises:
            SavepointError: when there is no such state; it names those that there are.
        """
        table = self._table(uid, store)
        if table is None:
            raise self._missing(uid, store)
        return table

    def to_dataframe(self, spark: Any, uid: str, store: str) -> Any:
        """Any state as a DataFrame of Spark, with the columns of :meth:`read_table`.

        Of a canonical savepoint in a folder Spark's tasks read the files, and do not look at their digests; ``headrace
        state verify`` does. What is in state files, those of a checkpoint directory say, or on an object store, is read
        by this process.

        Args:
            spark: the session.
            uid: the operator.
            store: the state, by its name as :meth:`states` gives it: ``state/total``.

        Raises:
            SavepointError: when there is no such state; it names those that there are.
            InvalidTypeError: when ``spark`` is no session.

        Examples:
            >>> from headrace.state_processor import SavepointReader
            >>> def totals(spark, path):
            ...     return SavepointReader.read(path).to_dataframe(spark, "totals", "state/total").orderBy("key")
        """
        check_spark_session(spark, "to_dataframe")
        tables = (file for file in self._job.files if isinstance(file, TableFile))
        files = [file for file in tables if (file.uid, file.state) == (uid, store)]
        if store.startswith(_BROADCAST):  # all subtasks have the same
            files = files[:1]
        if not files or "://" in self._job.location:
            return spark.createDataFrame(self.read_table(uid, store))
        paths = [f"file://{self._job.location}/{file.path}" for file in files]  # whatever file system Spark has else
        return spark.read.options(mergeSchema="true", **{_TAKES_PATTERNS: "false"}).parquet(*paths)

    def query(self, uid: str, descriptor: StateDescriptor, key: Any, key_type: DeclaredType | None = None) -> Any:
        """Read the state of one key alone; Flink called that queryable state.

        Of a job that runs it is what its newest checkpoint holds when the reader is made.

        Args:
            uid: the operator.
            descriptor: the state, as the program declares it.
            key: the key.
            key_type: the type of keys that the program gives to ``key_by``; any object when left out.

        Returns:
            What the state gives for the key: a value (None where there is none), a list, a dict.

        Raises:
            StateMigrationError: when the state was stored with another type, or with other keys.
            SavepointError: when the operator has no state, nothing is stored under that name (it names the states that
                there are), or the savepoint has none but tables.
        """
        return self._with_retries(lambda job: query(job, uid, descriptor, key, key_type))

    def verify(self) -> Verified:
        """Read all that there is, and compare it with the digests and checksums that were written with it.

        Other damage is an error when what is damaged is read: by the job that starts from there, say.

        Returns:
            How many files and bytes there are.

        Raises:
            StateCorruptedError: naming all that is missing or damaged.
        """
        return self._with_retries(verify)

    def _table(self, uid: str, store: str) -> pa.Table | None:
        def read(job: StoredJob) -> pa.Table | None:
            parts = [
                pa.Table.from_batches([readable(batch, table.about)])
                for table in _distinct(job, (uid, store))
                for batch in table.batches
            ]
            return pa.concat_tables(parts, promote_options="default") if parts else None

        return self._with_retries(read)

    def _with_retries(self, read: Callable[[StoredJob], T]) -> T:
        self._job, found = read_with_retries(self._job, read)
        return found

    def _missing(self, uid: str, store: str) -> SavepointError:
        known = [f"{table.uid} {table.store}" for table in self.states()]
        near = get_close_matches(f"{uid} {store}", known, 1)
        there = f"did you mean {near[0]}?" if near else f"it holds {', '.join(known) or 'no state'}."
        return SavepointError(
            f"{self._job.location} holds no {store!r} of an operator with uid {uid!r}: {there} (A state that holds "
            "nothing is not stored.)"
        )


def _states(job: StoredJob) -> list[StoredTable]:
    about: dict[tuple[str, str], dict[str, Any]] = {}
    rows: dict[tuple[str, str], int] = defaultdict(int)
    for table in _distinct(job):
        place = (table.uid, table.store)
        about[place] = table.about
        rows[place] += sum(batch.num_rows for batch in table.batches)
    return [
        StoredTable(uid, store, str(about[uid, store].get("kind", "log")), _types(about[uid, store]), rows[uid, store])
        for uid, store in sorted(rows)
    ]


def _distinct(job: StoredJob, place: StatePlace | None = None) -> Iterator[ExportedTable]:
    """All tables, or those of one state; of broadcast state, which all subtasks have alike, that of one of them."""
    seen: set[tuple[str, str]] = set()
    for table in job.tables(place):
        own = (table.uid, table.store)
        if not (table.store.startswith(_BROADCAST) and own in seen):
            seen.add(own)
            yield table


def _types(about: dict[str, Any]) -> str:
    codec, types = codec_of_keys(about), about.get("types")
    known = [] if codec is None else [codec.type]
    if types is not None:
        described = [types] if "type" in types else [types[role] for role in ("key", "value") if role in types]
        known += map(type_from_json, described)
    return " → ".join(map(in_words, known))


_IDENTITY: Final = (KEY, ENCODED, NAMESPACE, *WINDOW, ENTRY_KEY, "time", "window_end", "domain")
"""The columns that say what a row is of; what else it has may change."""

Change = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The value of one key, or entry of a key, in one state, before and after.

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
        sides = " -> ".join(_rows_text(rows) for rows in (self.before, self.after) if rows or self.change == "changed")
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


def _rows_text(rows: list[dict[str, Any]]) -> str:
    return "; ".join(map(_of_row, rows)) or "nothing"


def _of_row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items()) or "there"
