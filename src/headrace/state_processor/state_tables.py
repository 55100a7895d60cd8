"""``StateTables``: the state of an operator, given as tables; and what a transformation writes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError, InvalidProgramError, SavepointError, expect, refused
from headrace.common.typeinfo import DeclaredType, Types
from headrace.operators.window.stored_windows import is_of_operator
from headrace.savepoint.metadata import TableFile
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from headrace.state.keys import KeyCodec
from headrace.state.protocols import StateKind, StateKinds
from headrace.state_processor.given_rows import GivenRows, by_domain, given_rows, is_spark_dataframe, table_of
from headrace.state_processor.manifest_edits import OperatorPlace
from headrace.state_processor.state_columns import StateColumns
from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where the state of an operator is written.

    Attributes:
        savepoint: the directory of the savepoint.
        place: the operator in it.
        configuration: how jobs are run for it.
    """

    savepoint: Folder
    place: OperatorPlace
    configuration: Configuration


class WrittenState(NamedTuple):
    """The state of an operator, as it was written.

    Attributes:
        tables: its files.
        epochs: how many epochs it took to make it: records that windows hold are numbered by them.
    """

    tables: list[TableFile]
    epochs: int = 0


class StateTransformation(ABC):
    """What the state of an operator is made of: what :class:`OperatorTransformation` gives.

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
    def write(self, target: WriteTarget) -> WrittenState:
        """Write it into a savepoint.

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
        self._states: dict[str, GivenRows] = {}

    @property
    def parallelism(self) -> int:
        return max((state.parallelism for state in self._states.values()), default=1)

    @property
    def state_kinds(self) -> StateKinds:
        return frozenset(state.columns.state_kind for state in self._states.values())

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

        Windows that are told apart by their ends alone, as tumbling and sliding ones are, have no ``window_start``.
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

    def write(self, target: WriteTarget) -> WrittenState:
        written: list[TableFile] = []
        for state in self._states.values():
            try:
                written += state.write(target.savepoint, target.place)
            except HeadraceError as error:
                raise SavepointError(f"operator {target.place.uid!r}: {error}") from error
        return WrittenState(written)

    def _with(self, columns: StateColumns, data: object) -> Self:
        if columns.store in self._states:
            raise InvalidProgramError(f"the {columns.subject} is given twice: put the rows of both into one table")
        self._states[columns.store] = given_rows(columns, data)
        return self
