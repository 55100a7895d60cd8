"""Functions that make state for a job that is yet to begin, record by record."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic

from headrace.common.type_variables import K_contra, T_contra
from headrace.datastream.functions import (
    CheckpointedFunction,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ProcessFunction,
)


class KeyedStateBootstrapFunction(KeyedProcessFunction[K_contra, T_contra, Any], Generic[K_contra, T_contra]):
    """Makes state and timers of keys out of records.

    It gets its states in ``open``, as a ``KeyedProcessFunction`` does, and sets timers by ``ctx.timer_service()``. They
    fire in the job that begins with the savepoint, even those that are due by then; here none does. It yields nothing.

    Examples:
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.state_processor import KeyedStateBootstrapFunction, OperatorTransformation
        >>> from headrace.state_processor import SavepointReader, SavepointWriter
        >>> class Totals(KeyedStateBootstrapFunction):
        ...     def open(self, runtime_context):
        ...         self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.total.update((self.total.value() or 0) + value.amount)
        ...         ctx.timer_service().register_event_time_timer(60_000)
        >>> orders = pa.table({"user": ["ann", "bob", "ann"], "amount": [1, 2, 3]})
        >>> keyed = OperatorTransformation.bootstrap_with(orders).key_by(lambda order: order.user, Types.STRING())
        >>> writer = SavepointWriter.new_savepoint().with_operator("totals", keyed.transform(Totals()))
        >>> path = writer.write(tempfile.mkdtemp() + "/first")
        >>> SavepointReader.read(path).read_keyed_state("totals", "total").sort_by("key").to_pylist()
        [{'key': 'ann', 'value': 4}, {'key': 'bob', 'value': 2}]
        >>> SavepointReader.read(path).read_timers("totals").num_rows
        2
    """

    @abstractmethod
    def process_element(self, value: T_contra, ctx: KeyedProcessFunction.Context[K_contra]) -> None:
        """Called for each record."""


class StateBootstrapFunction(ProcessFunction[T_contra, Any], CheckpointedFunction, Generic[T_contra]):
    """Makes the list and union list states of an operator out of records.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> from headrace.state_processor import StateBootstrapFunction
        >>> class Waiting(StateBootstrapFunction):
        ...     def initialize_state(self, context):
        ...         words = ListStateDescriptor("words", Types.STRING())
        ...         self.words = context.get_operator_state_store().get_list_state(words)
        ...     def process_element(self, value, ctx):
        ...         self.words.add(value)
        ...     def snapshot_state(self, context):
        ...         pass
        >>> waiting = OperatorTransformation.bootstrap_with(["tea", "cake"]).transform(Waiting())
        >>> path = SavepointWriter.new_savepoint().with_operator("pairs", waiting).write(tempfile.mkdtemp() + "/first")
        >>> SavepointReader.read(path).read_list_state("pairs", "words").column("value").to_pylist()
        ['tea', 'cake']
    """

    @abstractmethod
    def process_element(self, value: T_contra, ctx: ProcessFunction.Context) -> None:
        """Called for each record."""


class BroadcastStateBootstrapFunction(StateBootstrapFunction[T_contra]):
    """Makes the broadcast state of an operator out of records: each subtask is given all of them.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> from headrace.state_processor import BroadcastStateBootstrapFunction
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> RATES = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())
        >>> class Rates(BroadcastStateBootstrapFunction):
        ...     def initialize_state(self, context):
        ...         self.rates = context.get_operator_state_store().get_broadcast_state(RATES)
        ...     def process_element(self, value, ctx):
        ...         self.rates.put(value[0], value[1])
        >>> rates = OperatorTransformation.bootstrap_with([("USD", 1.1), ("USD", 1.2)]).transform(Rates())
        >>> path = SavepointWriter.new_savepoint().with_operator("priced", rates).write(tempfile.mkdtemp() + "/first")
        >>> SavepointReader.read(path).read_broadcast_state("priced", "rates").column("value").to_pylist()
        [1.2]
    """

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at the end of an epoch; the state is as records have left it."""
