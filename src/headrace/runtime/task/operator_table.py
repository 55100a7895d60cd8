"""Which operator runs which spec: the one place to look for, and to add, an operator kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.directory import sink_folder
from headrace.connectors.sink import WriterContext
from headrace.graph import specs
from headrace.graph.async_specs import AsyncSpec, LookupSpec
from headrace.graph.join_specs import CoGroupSpec, IntervalJoinSpec
from headrace.graph.process_specs import (
    BroadcastProcessSpec,
    CoProcessSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
    KeyedProcessSpec,
    ProcessSpec,
    StateBootstrapSpec,
    TwoInputSpec,
)
from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    ColumnarContinuousSpec,
    ColumnarCountSpec,
    ColumnarSessionSpec,
    ColumnarUntimedSpec,
    ColumnarWindowSpec,
    GlobalWindowSpec,
    LocalWindowSpec,
    RowWindowSpec,
    TriggeredWindowSpec,
)
from headrace.operators.asynchronous.async_operator import AsyncOperator
from headrace.operators.base import Operator
from headrace.operators.broadcast.broadcast_operator import (
    BROADCAST,
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from headrace.operators.columns import ColumnFilterOperator, SelectOperator
from headrace.operators.event_time_order.order_operator import EventTimeOrderOperator
from headrace.operators.functions import TWO_INPUTS
from headrace.operators.join.co_group import CoGroupOperator
from headrace.operators.join.column_results import ColumnResults
from headrace.operators.join.function_results import FunctionResults, JoinResults
from headrace.operators.join.interval_join import IntervalJoinOperator
from headrace.operators.join.window_join import ColumnarWindowJoin
from headrace.operators.keyed_process import KeyedProcessOperator
from headrace.operators.lookup.lookup_operator import LookupOperator
from headrace.operators.process import ProcessOperator
from headrace.operators.rolling import RollingOperator, rolling_aggregate, rolling_reduce
from headrace.operators.sink import SinkOperator
from headrace.operators.state_bootstrap import StateBootstrapOperator
from headrace.operators.stateless import FilterOperator, FlatMapOperator, MapBatchesOperator, MapOperator
from headrace.operators.timestamps import TimestampsOperator
from headrace.operators.user_code import OperatorPlace
from headrace.operators.window.columnar.continuous.continuous_window import (
    ContinuousClockOperator,
    ContinuousEventTimeOperator,
)
from headrace.operators.window.columnar.continuous.early_windows import EarlyWindowLayout
from headrace.operators.window.columnar.count_panes import CountPanes
from headrace.operators.window.columnar.count_window import CountWindowOperator
from headrace.operators.window.columnar.local_aggregate import LocalWindowAggregate
from headrace.operators.window.columnar.panes.paned_window import columnar_window
from headrace.operators.window.columnar.sessions.kept_sessions import KeptSessionOperator
from headrace.operators.window.columnar.sessions.session_window import SessionWindowOperator
from headrace.operators.window.columnar.sliding_count_window import SlidingCountWindowOperator
from headrace.operators.window.columnar.untimed_window import untimed_window
from headrace.operators.window.general.aggregating_operator import AggregatingWindowOperator
from headrace.operators.window.general.layout import GeneralWindowLayout
from headrace.operators.window.general.window_operator import WindowOperator
from headrace.operators.window.kept_open import KeptOpen
from headrace.plan.job_plan import PlannedOperator
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.intervals import OneWindow

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.kept_clients import KeptClients
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.messages import JobBlob


class OperatorMaker:
    """Makes the operators of one subtask.

    Args:
        plan: the job.
        job_id: the job's id.
        generation: that of the job manager.
        subtask: which subtask.
        blob: where sinks may keep what is not committed, and how they reach object stores.
        clients: those that this process keeps for the job.
    """

    def __init__(
        self, plan: JobPlan, job_id: str, generation: int, subtask: int, blob: JobBlob, clients: KeptClients
    ) -> None:
        self._plan = plan
        self._job_id = job_id
        self._generation = generation
        self._subtask = subtask
        self._blob = blob
        self._clients = clients

    def make(self, planned: PlannedOperator) -> Operator:
        """The operator that does what the spec says."""
        spec = planned.node.spec
        operator = _MAKERS[type(spec)](self, planned, spec)
        if planned.node.keeps_windows_open:
            operator = KeptOpen(operator)
        operator.takes_changes = spec.takes_changes([planned.input_schema(index) for index in range(len(spec.inputs))])
        return operator

    def _map(self, planned: PlannedOperator, spec: specs.MapSpec) -> Operator:
        return MapOperator(spec.function, planned.output_type)

    def _flat_map(self, planned: PlannedOperator, spec: specs.FlatMapSpec) -> Operator:
        return FlatMapOperator(spec.function, planned.output_type)

    def _filter(self, planned: PlannedOperator, spec: specs.FilterSpec) -> Operator:
        return FilterOperator(spec.function, planned.output_type)

    def _column_filter(self, planned: PlannedOperator, spec: specs.ColumnFilterSpec) -> Operator:
        return ColumnFilterOperator(spec.condition)

    def _select(self, planned: PlannedOperator, spec: specs.SelectSpec) -> Operator:
        return SelectOperator(spec.columns, planned.output_type)

    def _map_batches(self, planned: PlannedOperator, spec: specs.MapBatchesSpec) -> Operator:
        return MapBatchesOperator(spec.function, planned.output_type)

    def _async(self, planned: PlannedOperator, spec: AsyncSpec) -> Operator:
        return AsyncOperator(spec.function, planned.output_type, spec.settings, spec.grouping)

    def _lookup(self, planned: PlannedOperator, spec: LookupSpec) -> Operator:
        return LookupOperator(spec.reader, spec.key_of, planned.output_type, spec.settings)

    def _timestamps(self, planned: PlannedOperator, spec: specs.TimestampsSpec) -> Operator:
        return TimestampsOperator(spec.strategy, is_batch=self._plan.settings.is_batch)

    def _process(self, planned: PlannedOperator, spec: ProcessSpec) -> Operator:
        return ProcessOperator(spec.function, planned.output_type, planned.side_types_read)

    def _keyed_process(self, planned: PlannedOperator, spec: KeyedProcessSpec) -> Operator:
        is_batch = self._plan.settings.is_batch
        return KeyedProcessOperator(spec.function, planned.output_type, planned.side_types_read, is_batch=is_batch)

    def _state_bootstrap(self, planned: PlannedOperator, spec: StateBootstrapSpec) -> Operator:
        return StateBootstrapOperator(spec.function, planned.output_type, planned.side_types_read)

    def _co_process(self, planned: PlannedOperator, spec: CoProcessSpec) -> Operator:
        operator = ProcessOperator(spec.function, planned.output_type, planned.side_types_read, TWO_INPUTS)
        return self._in_order(planned, spec, operator)

    def _keyed_co_process(self, planned: PlannedOperator, spec: KeyedCoProcessSpec) -> Operator:
        operator = KeyedProcessOperator(
            spec.function,
            planned.output_type,
            planned.side_types_read,
            TWO_INPUTS,
            is_batch=self._plan.settings.is_batch,
            is_in_order=spec.in_event_time_order,
        )
        return self._in_order(planned, spec, operator)

    def _broadcast(self, planned: PlannedOperator, spec: BroadcastProcessSpec) -> Operator:
        operator = BroadcastProcessOperator(
            spec.function, planned.output_type, planned.side_types_read, spec.descriptors
        )
        return self._in_order(planned, spec, operator, BROADCAST)

    def _keyed_broadcast(self, planned: PlannedOperator, spec: KeyedBroadcastProcessSpec) -> Operator:
        operator = KeyedBroadcastProcessOperator(
            spec.function,
            planned.output_type,
            planned.side_types_read,
            spec.descriptors,
            is_batch=self._plan.settings.is_batch,
            is_in_order=spec.in_event_time_order,
        )
        return self._in_order(planned, spec, operator, BROADCAST)

    def _in_order(
        self,
        planned: PlannedOperator,
        spec: TwoInputSpec,
        operator: KeyedProcessOperator | ProcessOperator,
        broadcast: int | None = None,
    ) -> Operator:
        """The operator, behind one that puts its records in order where the program wants that."""
        if spec.in_event_time_order:
            return EventTimeOrderOperator(operator, self._input_types(planned), broadcast)
        return operator

    def _interval_join(self, planned: PlannedOperator, spec: IntervalJoinSpec) -> Operator:
        types = self._input_types(planned)
        results: JoinResults = (
            ColumnResults(spec.columns, types, planned.output_type)
            if spec.function is None
            else FunctionResults(spec.function, types, planned.output_type, planned.side_types_read)
        )
        return IntervalJoinOperator(spec.interval, types, spec.late_tag_ids, results, spec.outer)

    def _input_types(self, planned: PlannedOperator) -> list[TypeInformation]:
        return [planned.input_schema(index).record_type for index in range(len(planned.node.spec.inputs))]

    def _reduce(self, planned: PlannedOperator, spec: specs.RollingReduceSpec) -> Operator:
        return RollingOperator(
            rolling_reduce(spec.function), planned.output_type, is_batch=self._plan.settings.is_batch
        )

    def _aggregate(self, planned: PlannedOperator, spec: specs.RollingAggregateSpec) -> Operator:
        fold = rolling_aggregate(spec.aggregation, spec.field, planned.output_type)
        return RollingOperator(fold, planned.output_type, is_batch=self._plan.settings.is_batch)

    def _sink(self, planned: PlannedOperator, spec: specs.SinkSpec) -> Operator:
        context = WriterContext(
            job_id=self._job_id,
            operator_id=planned.uid,
            generation=self._generation,
            subtask=self._subtask,
            parallelism=planned.parallelism,
            input_type=planned.input_schema(0).record_type,
            storage_options=self._blob.storage_options,
            folder=sink_folder(self._blob.storage, planned.uid),
            clients=self._clients,
        )
        return SinkOperator(spec.sink, context, next(iter(planned.node.outputs.side_types.items()), None))

    def _columnar_window(self, planned: PlannedOperator, spec: ColumnarWindowSpec) -> Operator:
        asked, layout = spec.asked, self._columns(planned, spec.asked)
        return columnar_window(layout, spec.windows, asked.allowed_lateness, asked.late_tag_id, asked.applied_mode)

    def _columnar_sessions(self, planned: PlannedOperator, spec: ColumnarSessionSpec) -> Operator:
        layout, tag, lateness = self._columns(planned, spec.asked), spec.asked.late_tag_id, spec.asked.allowed_lateness
        if lateness:
            discards = spec.asked.applied_mode is AccumulationMode.DISCARDING
            return KeptSessionOperator(layout, spec.gap, tag, lateness, discards=discards)
        return SessionWindowOperator(layout, spec.gap, tag)

    def _columnar_untimed(self, planned: PlannedOperator, spec: ColumnarUntimedSpec) -> Operator:
        return untimed_window(self._columns(planned, spec.asked), spec.windows)

    def _columnar_counts(self, planned: PlannedOperator, spec: ColumnarCountSpec) -> Operator:
        layout = self._columns(planned, spec.asked)
        if spec.slide == spec.size:
            return CountWindowOperator(layout, spec.size)
        return SlidingCountWindowOperator(layout, CountPanes(spec.size, spec.slide))

    def _columnar_continuous(self, planned: PlannedOperator, spec: ColumnarContinuousSpec) -> Operator:
        asked = spec.asked
        layout = EarlyWindowLayout(
            columns=self._columns(planned, asked),
            windows=spec.windows,
            interval=spec.interval,
            lateness=asked.allowed_lateness,
            late_tag=asked.late_tag_id,
            mode=asked.applied_mode,
        )
        if spec.by_clock:
            return ContinuousClockOperator(layout, is_event_time=asked.assigner.is_event_time())
        return ContinuousEventTimeOperator(layout)

    def _local_window(self, planned: PlannedOperator, spec: LocalWindowSpec) -> Operator:
        knows_windows = not isinstance(spec.window, ColumnarUntimedSpec)  # else the receiver does
        windows = spec.window.windows if knows_windows else OneWindow()
        return LocalWindowAggregate(self._columns(planned, spec.window.asked), windows)

    def _global_window(self, planned: PlannedOperator, spec: GlobalWindowSpec) -> Operator:
        return _MAKERS[type(spec.window)](self, planned, spec.window)

    def _aggregated_window(self, planned: PlannedOperator, spec: AggregatedWindowSpec) -> Operator:
        return AggregatingWindowOperator(self._general_layout(planned, spec), self._columns(planned, spec))

    def _row_window(self, planned: PlannedOperator, spec: RowWindowSpec) -> Operator:
        return WindowOperator(self._row_layout(planned, spec))

    def _co_group(self, planned: PlannedOperator, spec: CoGroupSpec) -> Operator:
        layout = self._row_layout(planned, spec)
        if not spec.columns:
            return CoGroupOperator(layout)
        results = ColumnResults(spec.columns, self._input_types(planned), planned.output_type)
        return ColumnarWindowJoin(layout, spec.outer, results)

    def _row_layout(self, planned: PlannedOperator, spec: RowWindowSpec) -> GeneralWindowLayout:
        """What a window with functions of the user consists of."""
        return self._general_layout(
            planned,
            spec,
            reduce_function=spec.reduce_function,
            aggregate_function=spec.aggregate_function,
            window_function=spec.window_function,
            accumulator_type=spec.accumulator_type,
        )

    def _general_layout(
        self, planned: PlannedOperator, spec: TriggeredWindowSpec, **functions: Any
    ) -> GeneralWindowLayout:
        """What a window of any kind consists of."""
        inputs = [planned.input_schema(index) for index in range(len(spec.inputs))]
        return GeneralWindowLayout(
            assigner=spec.assigner,
            trigger=spec.applied_trigger,
            evictor=spec.evictor,
            input_type=spec.element_type(inputs),
            output_type=planned.output_type,
            lateness=spec.allowed_lateness,
            late_tag=spec.late_tag_id,
            side_types=planned.side_types_read,
            takes_results_back=spec.accumulation_mode.retracts,
            is_batch=self._plan.settings.is_batch or planned.node.keeps_windows_open,
            **functions,
        )

    def _columns(self, planned: PlannedOperator, spec: AggregatedWindowSpec) -> ColumnarWindowLayout:
        """The columns of a window with built-in aggregates, which know what operator they are of."""
        node = planned.node
        place = OperatorPlace(node.name, planned.uid, self._subtask, node.call_site)
        return spec.layout(planned.input_schema(0)).of_operator(place, planned.renamed_fields)


Make = Callable[[OperatorMaker, PlannedOperator, Any], Operator]
"""Makes the operator of one subtask: of its place in the plan, and of its spec."""


def register_operator(kind: type[specs.OperatorSpec], make: Make) -> None:
    """Have ``make`` make the operators of a spec; for the module of the spec, which workers import with it."""
    _MAKERS[kind] = make


_MAKERS: dict[type[specs.OperatorSpec], Make] = {
    specs.MapSpec: OperatorMaker._map,
    specs.FlatMapSpec: OperatorMaker._flat_map,
    specs.FilterSpec: OperatorMaker._filter,
    specs.ColumnFilterSpec: OperatorMaker._column_filter,
    specs.SelectSpec: OperatorMaker._select,
    specs.MapBatchesSpec: OperatorMaker._map_batches,
    AsyncSpec: OperatorMaker._async,
    LookupSpec: OperatorMaker._lookup,
    specs.TimestampsSpec: OperatorMaker._timestamps,
    ProcessSpec: OperatorMaker._process,
    KeyedProcessSpec: OperatorMaker._keyed_process,
    StateBootstrapSpec: OperatorMaker._state_bootstrap,
    CoProcessSpec: OperatorMaker._co_process,
    KeyedCoProcessSpec: OperatorMaker._keyed_co_process,
    BroadcastProcessSpec: OperatorMaker._broadcast,
    KeyedBroadcastProcessSpec: OperatorMaker._keyed_broadcast,
    IntervalJoinSpec: OperatorMaker._interval_join,
    specs.RollingReduceSpec: OperatorMaker._reduce,
    specs.RollingAggregateSpec: OperatorMaker._aggregate,
    specs.SinkSpec: OperatorMaker._sink,
    AggregatedWindowSpec: OperatorMaker._aggregated_window,
    ColumnarWindowSpec: OperatorMaker._columnar_window,
    ColumnarUntimedSpec: OperatorMaker._columnar_untimed,
    ColumnarSessionSpec: OperatorMaker._columnar_sessions,
    ColumnarCountSpec: OperatorMaker._columnar_counts,
    ColumnarContinuousSpec: OperatorMaker._columnar_continuous,
    LocalWindowSpec: OperatorMaker._local_window,
    GlobalWindowSpec: OperatorMaker._global_window,
    RowWindowSpec: OperatorMaker._row_window,
    CoGroupSpec: OperatorMaker._co_group,
}
