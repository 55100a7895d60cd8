"""The window operator for built-in aggregates over windows of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headrace.operators.window.general.accumulated_contents import AccumulatedContents
from headrace.operators.window.general.aggregate_log import AggregateLog
from headrace.operators.window.general.former_results import RecordedResults
from headrace.operators.window.general.window_operator import WindowOperator
from headrace.windowing.definition import WindowFunctions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import EpochScope, OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.general.contents import KeyedContents
    from headrace.operators.window.general.former_results import EmittedResults
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys.entries import AnyKeyEntry
    from headrace.state.renamed_fields import RenamedFields
    from headrace.windowing.definition import WindowDefinition
    from headrace.windowing.trigger import Firing


class AggregatingWindowOperator(WindowOperator):
    """Built-in aggregates over windows; the trigger is asked element by element, results are made a batch at once.

    Args:
        definition: the windows.
        input_type: the type of the elements.
        columns: the aggregates and the columns.
        side_types: as of :class:`.WindowOperator`.
        is_batch: as of :class:`.WindowOperator`.
    """

    def __init__(
        self,
        definition: WindowDefinition,
        input_type: TypeInformation,
        columns: ColumnarWindowLayout,
        side_types: Mapping[str, TypeInformation],
        *,
        is_batch: bool = False,
    ) -> None:
        super().__init__(definition, WindowFunctions(), input_type, columns.output_type, side_types, is_batch=is_batch)
        self._columns = columns

    def restore_state(self, context: OperatorContext) -> None:
        self._log = AggregateLog(self._columns, self._windows, self._input_type, context)
        super().restore_state(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._log.begin_epoch(scope.epoch)
        super().begin_epoch(scope)

    def _fixed_windows(self) -> None:
        return None  # over those they are columnar, or the trigger is to be asked

    def _keyed_contents(self, renamed: RenamedFields) -> KeyedContents:
        if self._definition.evictor is not None:
            return super()._keyed_contents(renamed)
        return AccumulatedContents(self._keyed, self._definition.kind, self._columns, self._log)

    def _new_former_results(self, renamed: RenamedFields) -> EmittedResults:
        return RecordedResults(self._keyed, self._output_type, renamed)

    def _show(self, elements: Sequence[Any], window: Any, contents: GivenNamespace, firing: Firing, stamp: int) -> None:
        former = self._former if isinstance(self._former, RecordedResults) else None
        if elements:
            version = elements[0] if self._definition.evictor is None else self._log.version_of(elements)
            self._log.show(version, cast("AnyKeyEntry", self._keyed.current).raw, window, stamp)
            if former is not None:
                former.show(contents)
        elif former is not None:  # an evictor has left nothing
            former.show_nothing(contents, window.max_timestamp(), stamp)

    def _flush(self) -> None:
        super()._flush()
        made: list[Batch] = []
        if isinstance(self._contents, AccumulatedContents):
            self._contents.work_out(made.append)
        else:
            self._log.work_out(made.append)
        if isinstance(self._former, RecordedResults):
            made = self._former.all_changes(made)
        for results in made:
            self.output.emit(results)
