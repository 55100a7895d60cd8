"""``StateTables``: the state of an operator, given as tables; and what a transformation writes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.configuration import Configuration
from headrace.common.errors import (
    HeadraceError,
    InvalidProgramError,
    InvalidTypeError,
    SavepointError,
    expect,
    refused,
    shown,
)
from headrace.common.typeinfo import DeclaredType, Types
from headrace.operators.window.stored_windows import is_of_operator
from headrace.savepoint.metadata import TableFile
from headrace.savepoint.tables import write_table
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from headrace.state.exported_tables import ExportedTable
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.hashing import partitions_of_hashes
from headrace.state.protocols import StateKind, StateKinds
from headrace.state.runs.layout import KEY, TIMERS
from headrace.state_processor.state_columns import StateColumns
from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class StatePlacement:
    """The place of an operator's state in a savepoint.

    Attributes:
        uid: the operator.
        stage: the stage of its tasks.
        parallelism: how many tasks it has.
        max_parallelism: into how many key groups its keys are divided.
    """

    uid: str
    stage: int
    parallelism: int
    max_parallelism: int


def table_of(data: Any) -> pa.Table:
    """The rows of a table of Arrow, pandas, Polars or DuckDB; or of a dict of columns, or a list of dicts.

    Raises:
        InvalidTypeError: when it is something else, or Arrow has no type for a column.
    """
    try:
        found = _table_of(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidTypeError(f"no Arrow table can be made of this {type(data).__name__}: {error}") from error
    if found is None:
        raise InvalidTypeError(
            f"expected a table of Arrow, pandas, Polars, DuckDB or Spark, not {type(data).__module__}."
            f"{type(data).__qualname__}"
        )
    return found


def is_table(data: Any) -> bool:
    """Return whether it is a table of a library, and not elements."""
    return isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def is_spark_dataframe(data: Any) -> bool:
    """Return whether it is a DataFrame of Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def check_spark_session(given: Any, method: str) -> None:
    """Refuse what is no session of Spark.

    Raises:
        InvalidTypeError: naming the method that takes one.
    """
    if not (type(given).__module__.startswith("pyspark.") and hasattr(given, "createDataFrame")):
        raise refused(f"{method} takes a SparkSession, not {shown(given)}", InvalidTypeError)


def _table_of(data: Any) -> pa.Table | None:
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _is_pandas(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, Mapping):
        return pa.table(data)
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return pa.Table.from_pylist(list(data))
    return None


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.startswith("pandas.") and hasattr(data, "columns")  # a Series has none


def divided(place: StatePlacement, columns: StateColumns, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each task, by partition, in their order."""
    if columns.is_broadcast:
        yield from ((partition, rows) for partition in range(place.parallelism))
    elif columns.state_kind is StateKind.UNION:  # after a start each task has all of it
        yield 0, rows
    else:
        partitions = _partitions(place, columns, rows)
        order = np.argsort(partitions, kind="stable")
        bounds = np.searchsorted(partitions[order], np.arange(place.parallelism + 1))
        for partition, (start, stop) in enumerate(pairwise(bounds.tolist())):
            yield partition, rows.take(pa.array(order[start:stop]))


def _partitions(place: StatePlacement, columns: StateColumns, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    if columns.state_kind is StateKind.LIST or KEY not in rows.schema.names:  # an equal share for each
        shares: npt.NDArray[np.int64] = np.arange(rows.num_rows) * place.parallelism // max(1, rows.num_rows)
        return shares
    hashes = KeyColumn.of(rows.column(KEY)).hashes
    return partitions_of_hashes(hashes, place.parallelism, place.max_parallelism)


def write_rows(savepoint: Folder, place: StatePlacement, columns: StateColumns, rows: Any) -> list[TableFile]:
    """Write what :func:`checked_rows` gave into the files of an operator's tasks; a task without rows has no file.

    Raises:
        SavepointError: when rows are no such state, or Parquet has no form for a column.
        OSError: when a file cannot be written.
    """
    if is_spark_dataframe(rows):
        from headrace.runtime.spark.dataframe import grouped  # with such a DataFrame there is Spark

        divide = partial(_divided_batch, place, columns)
        return grouped(rows, place.parallelism, divide, partial(_write_batches, savepoint, place, columns))
    parts = divided(place, columns, rows)
    return [_write(savepoint, place, columns, number, part) for number, part in parts if part.num_rows]


def checked_rows(columns: StateColumns, data: Any) -> Any:
    """The rows of a table of any library.

    They are in this process, and stored as backends take them in; or a static DataFrame of Spark, of which nothing
    comes into this process.

    Raises:
        SavepointError: when columns are missing or unknown, and where rows of this process are no such state.
        InvalidTypeError: when ``data`` is no table.
    """
    if is_spark_dataframe(data):
        if data.isStreaming:
            raise InvalidTypeError(f"{columns.subject}: expected a static DataFrame, not a streaming one")
        columns.check_names(data.columns)
        return data
    table = table_of(data)
    columns.check_names(table.column_names)
    rows = columns.stored(table)
    columns.check_identity(rows)
    return rows


def default_parallelism(data: Any) -> int:
    """Return how many tasks data is meant for: those of a DataFrame's cluster, or one."""
    return int(data.sparkSession.sparkContext.defaultParallelism) if is_spark_dataframe(data) else 1


def _divided_batch(
    place: StatePlacement, columns: StateColumns, batch: pa.RecordBatch
) -> Iterator[tuple[int, pa.RecordBatch]]:
    return divided(place, columns, columns.stored(pa.Table.from_batches([batch])))


def _write_batches(
    savepoint: Folder, place: StatePlacement, columns: StateColumns, partition: int, batches: Iterator[pa.RecordBatch]
) -> TableFile:
    """Writes all rows of a task, which have not been checked together yet."""
    rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    columns.check_identity(rows)
    return _write(savepoint, place, columns, partition, rows)


def _write(
    savepoint: Folder, place: StatePlacement, columns: StateColumns, partition: int, rows: pa.RecordBatch
) -> TableFile:
    table = ExportedTable(place.uid, columns.store, columns.about, rows.schema, [rows])
    return write_table(savepoint, table, place.stage, partition)


DOMAIN: Final = "domain"
"""The column that says in which time timers are; event time where there is none."""

_DOMAINS: Final = ("event", "processing")


def by_domain(table: Any) -> Iterator[tuple[str, Any]]:
    """The timers of each time domain.

    Raises:
        SavepointError: when there is another one.
    """
    is_spark = is_spark_dataframe(table)
    if DOMAIN not in (table.columns if is_spark else table.column_names):
        yield _DOMAINS[0], table
        return
    if is_spark:
        found = [row[0] for row in table.select(DOMAIN).distinct().collect()]
    else:
        found = pc.unique(table.column(DOMAIN)).to_pylist()
    unknown = [domain for domain in found if domain not in _DOMAINS]
    if unknown:
        raise SavepointError(f"timers: {DOMAIN!r} is {unknown[0]!r} in a row, and has to be event or processing")
    for domain in sorted(found):
        if is_spark:
            yield domain, table.filter(table[DOMAIN] == domain).drop(DOMAIN)
        else:
            yield domain, table.filter(pc.equal(table.column(DOMAIN), domain)).drop_columns([DOMAIN])


def of_one_domain(store: str, data: Any) -> Any:
    """The rows for a store; of timers without the column that says of which time they are, as all are of its own.

    Raises:
        SavepointError: when others are of the other time.
        InvalidTypeError: when ``data`` is no table.
    """
    kind, _, own = store.partition("/")
    table = data if is_spark_dataframe(data) else table_of(data)
    if kind != TIMERS or DOMAIN not in (table.columns if is_spark_dataframe(table) else table.column_names):
        return data
    found = dict(by_domain(table))
    other = next((domain for domain in found if domain != own), None)
    if other is not None:
        raise SavepointError(
            f"{store!r} holds timers of {own} time, and some rows are of {other} time: replace those as "
            f"{f'{TIMERS}/{other}'!r}"
        )
    return found.get(own, table.drop(DOMAIN) if is_spark_dataframe(table) else table.drop_columns([DOMAIN]))


class StateTransformation(ABC):
    """The source of the state of an operator, which :class:`OperatorTransformation` makes.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.state_processor import OperatorTransformation, StateTransformation
        >>> isinstance(OperatorTransformation.from_tables(Types.STRING()), StateTransformation)
        True
    """

    @property
    @abstractmethod
    def state_kinds(self) -> StateKinds:
        """The kinds of state that the operator has then."""

    @property
    def parallelism(self) -> int:
        """Into how many files the state of keys goes, unless a configuration says it."""
        return 1

    @abstractmethod
    def write(
        self, savepoint: Folder, place: StatePlacement, configuration: Configuration
    ) -> tuple[list[TableFile], int]:
        """Write it into a savepoint.

        Args:
            savepoint: its directory.
            place: the operator in it.
            configuration: how jobs are run for it.

        Returns:
            Its files, and how many epochs it took to make it: records that windows hold are numbered by them.

        Raises:
            SavepointError: when something of it cannot be such state.
        """


class StateTables(StateTransformation):
    """State of an operator from tables of Arrow, pandas, Polars, DuckDB or Spark.

    The columns are those that ``SavepointReader`` gives, in any order: ``key`` and ``value``; for map states
    ``entry_key`` besides; for states of windows ``window_start`` and ``window_end``. ``expiry`` may be left out. Each
    method returns the object itself; rows are checked when it is called.

    Args:
        key_type: the type of keys that the program gives to ``key_by``; any object when left out.

    Examples:
        >>> import pyarrow as pa
        >>> import tempfile
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> total = ValueStateDescriptor("total", Types.LONG())
        >>> totals = OperatorTransformation.from_tables(Types.STRING())
        >>> totals = totals.with_state(total, pa.table({"key": ["ann", "bob"], "value": [7, 8]}))
        >>> totals = totals.with_timers(pa.table({"key": ["ann"], "time": [60_000]}))
        >>> path = SavepointWriter.new_savepoint().with_operator("totals", totals).write(tempfile.mkdtemp() + "/first")
        >>> reader = SavepointReader.read(path)
        >>> reader.read_keyed_state("totals", "total").sort_by("key").to_pylist()
        [{'key': 'ann', 'value': 7}, {'key': 'bob', 'value': 8}]
        >>> reader.read_timers("totals").select(["domain", "time", "key"]).to_pylist()
        [{'domain': 'event', 'time': 60000, 'key': 'ann'}]
    """

    def __init__(self, key_type: DeclaredType | None = None) -> None:
        self._codec = KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY() if key_type is None else Types.of(key_type))
        self._states: dict[str, tuple[StateColumns, Any]] = {}

    @property
    def parallelism(self) -> int:
        return max((default_parallelism(rows) for _, rows in self._states.values()), default=1)

    @property
    def state_kinds(self) -> StateKinds:
        return frozenset(columns.state_kind for columns, _ in self._states.values())

    def with_state(self, descriptor: StateDescriptor, data: Any) -> Self:
        """Give a value, list, map, reducing or aggregating state of keys.

        Of an aggregating state ``value`` is the accumulator. The elements of a list are in the order of the rows.

        Args:
            descriptor: the state, as the program declares it.
            data: its rows.

        Raises:
            SavepointError: when columns are missing or unknown, and where rows are no such state; it says which row.
            InvalidProgramError: when the state was given already.
            InvalidTypeError: when ``data`` is no table.
        """
        expect(descriptor, StateDescriptor, "with_state")
        return self._with(StateColumns.keyed(descriptor, self._codec), data)

    def with_window_state(self, descriptor: StateDescriptor, data: Any) -> Self:
        """Give a state of keys and windows, as ``context.window_state()`` has it; arguments and errors likewise.

        Windows that are identified by their ends alone, as tumbling and sliding ones are, have no ``window_start``.
        """
        expect(descriptor, StateDescriptor, "with_window_state")
        if is_of_operator(descriptor.name):
            raise refused(
                f"windows keep {descriptor.name!r} for themselves: bootstrap_with(...).key_by(...).window(...) of "
                "OperatorTransformation fills them with records"
            )
        return self._with(StateColumns.keyed(descriptor, self._codec, by_window=True), data)

    def with_timers(self, data: Any) -> Self:
        """Give timers: ``key``, ``time`` in milliseconds, and ``domain`` (event, which is the default, or processing).

        Raises:
            SavepointError: as in :meth:`with_state`.
        """
        table = data if is_spark_dataframe(data) else table_of(data)
        for domain, own in by_domain(table):
            self._with(StateColumns.timers(domain, self._codec), own)
        return self

    def with_list_state(self, descriptor: ListStateDescriptor, data: Any) -> Self:
        """Give an operator's list state, of which each subtask gets an equal share; errors as in :meth:`with_state`."""
        expect(descriptor, ListStateDescriptor, "with_list_state")
        return self._with(StateColumns.list_of(StateKind.LIST, descriptor), data)

    def with_union_state(self, descriptor: ListStateDescriptor, data: Any) -> Self:
        """Give an operator's union list state, of which each subtask gets all; errors as in :meth:`with_state`."""
        expect(descriptor, ListStateDescriptor, "with_union_state")
        return self._with(StateColumns.list_of(StateKind.UNION, descriptor), data)

    def with_broadcast_state(self, descriptor: MapStateDescriptor, data: Any) -> Self:
        """Give a broadcast state: ``entry_key`` and ``value``; errors as in :meth:`with_state`."""
        expect(descriptor, MapStateDescriptor, "with_broadcast_state")
        return self._with(StateColumns.broadcast(descriptor), data)

    def write(
        self, savepoint: Folder, place: StatePlacement, configuration: Configuration
    ) -> tuple[list[TableFile], int]:
        written: list[TableFile] = []
        for columns, rows in self._states.values():
            try:
                written += write_rows(savepoint, place, columns, rows)
            except HeadraceError as error:
                raise SavepointError(f"operator {place.uid!r}: {error}") from error
        return written, 0

    def _with(self, columns: StateColumns, data: object) -> Self:
        if columns.store in self._states:
            raise InvalidProgramError(f"the {columns.subject} is given twice: put the rows of both into one table")
        self._states[columns.store] = columns, checked_rows(columns, data)
        return self
