"""What a window of any kind consists of; put together when the job is planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo import Types
from headrace.operators.window.general.contents import AggregatedContents, ListedContents, ReducedContents, all_of
from headrace.operators.window.general.evicted_contents import EvictedContents, aggregating, reducing
from headrace.operators.window.general.folds import AggregateFold, ReduceFold
from headrace.operators.window.general.ordered_elements import OrderedElements, elements_held_as
from headrace.operators.window.general.ordered_values import OrderedValues
from headrace.operators.window.general.window_functions import window_call
from headrace.windowing.assigner import MergingWindowAssigner
from headrace.windowing.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext
    from headrace.operators.window.general.contents import KeyedContents
    from headrace.operators.window.general.evicted_contents import Folding
    from headrace.operators.window.general.folds import Fold
    from headrace.operators.window.general.ordered_contents import OrderedContents
    from headrace.operators.window.general.trigger_context import OperatorTime
    from headrace.operators.window.general.window_functions import WindowCall
    from headrace.state.protocols import KeyedStates
    from headrace.state.renamed_fields import RenamedFields
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.evictor import Evictor
    from headrace.windowing.intervals import RegularWindows
    from headrace.windowing.trigger import Trigger

_KINDS: Final = {
    TimeWindowSerializer: "windows from one time to another",
    CountWindowSerializer: "windows of so many records",
    GlobalWindowSerializer: "windows without end",
}
"""What windows are, by what makes bytes of them."""


@dataclass(frozen=True)
class GeneralWindowLayout:
    """Functions of the user over windows.

    Attributes:
        assigner: puts records into windows.
        trigger: says when the contents of windows are shown, and when they go.
        evictor: removes elements before or after they are shown; None removes none.
        input_type: the type of the elements.
        output_type: the type of what is emitted.
        reduce_function: combines two elements, if the window is reduced.
        aggregate_function: an ``AggregateFunction``, if the window is aggregated.
        window_function: a ``WindowFunction`` or ``ProcessWindowFunction`` over the contents, if there is one.
        accumulator_type: the type of the accumulators of ``aggregate_function``; None pickles them.
        lateness: how long after its end a window of event time still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        side_types: the types of the side outputs that are read, by tag id.
        takes_results_back: whether windows that fire again take back what they have shown before; results are rows.
        is_batch: whether timers in processing time fire when the input has ended, whatever the clock says.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    input_type: TypeInformation
    output_type: TypeInformation
    evictor: Evictor[Any, Any] | None = None
    reduce_function: Any = None
    aggregate_function: Any = None
    window_function: Any = None
    accumulator_type: TypeInformation | None = None
    lateness: int = 0
    late_tag: str | None = None
    side_types: Mapping[str, TypeInformation] = field(default_factory=dict)
    takes_results_back: bool = False
    is_batch: bool = False

    @property
    def functions(self) -> tuple[Any, ...]:
        """The functions of the user that are opened and closed."""
        return self.reduce_function, self.aggregate_function, self.window_function

    @property
    def fixed_windows(self) -> RegularWindows | None:
        """The windows as arithmetic, where nobody looks at them before their ends, or takes back what they show."""
        is_seen_before = self.evictor is not None or self.takes_results_back or not self.trigger.fires_only_at_end
        return None if is_seen_before else self.assigner.aligned

    @property
    def kind_of_windows(self) -> str:
        """What the windows are, in words: what those of another kind hold would never fire, or never go."""
        kind = _KINDS.get(type(self.assigner.get_window_serializer()), "windows of a class of the program")
        merges = " that merge" if isinstance(self.assigner, MergingWindowAssigner) else ""
        return f"{kind}{merges}, of {'event' if self.assigner.is_event_time() else 'processing'} time"

    def new_call(self) -> WindowCall:
        """What calls the window function."""
        return window_call(self.window_function)

    def keyed_contents(self, keyed: KeyedStates, time: OperatorTime, renamed: RenamedFields) -> KeyedContents:
        """What windows hold, in state of key and window."""
        kind, type_ = self.kind_of_windows, self.input_type
        if self.evictor is not None:
            return EvictedContents(keyed, kind, type_, self.evictor, time, self._folding, renamed)
        if self.reduce_function is not None:
            return ReducedContents(keyed, kind, self.reduce_function, type_, renamed)
        if self.aggregate_function is not None:
            return AggregatedContents(keyed, kind, self.aggregate_function, self._accumulators, renamed)
        return ListedContents(keyed, kind, type_, renamed)

    def ordered_contents(self, context: OperatorContext, windows: RegularWindows) -> OrderedContents:
        """What windows of fixed ends hold, in the order of these."""
        if self.reduce_function is not None:
            fold: Fold = ReduceFold(self.reduce_function, self.input_type)
            return OrderedValues(context, windows, self.input_type, self.lateness, fold)
        if self.aggregate_function is not None:
            fold = AggregateFold(self.aggregate_function, self._accumulators)
            return OrderedValues(context, windows, self._accumulators, self.lateness, fold)
        held_as = elements_held_as(self.input_type, context.renamed_fields)
        return OrderedElements(context, held_as, windows, self.lateness)

    @property
    def _accumulators(self) -> TypeInformation:
        return self.accumulator_type or Types.PICKLED_BYTE_ARRAY()

    @property
    def _folding(self) -> Folding:
        if self.reduce_function is not None:
            return reducing(self.reduce_function, self.input_type)
        return all_of if self.aggregate_function is None else aggregating(self.aggregate_function)
