"""What operators do that make requests to services, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.common.typeinfo import Types
from headrace.graph.specs import FunctionSpec, OperatorSpec
from headrace.operators.asynchronous.requesting_operator import AsyncOperator
from headrace.operators.lookup.lookup_operator import LookupOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.specs import InputSchema, OperatorParameters
    from headrace.operators.asynchronous.requesting_operator import Grouping
    from headrace.operators.asynchronous.requests import RequestSettings
    from headrace.operators.base import Operator
    from headrace.operators.lookup.lookup_operator import LookupSettings
    from headrace.operators.lookup.reader import LookupReader


@dataclass(frozen=True, slots=True)
class AsyncSpec(FunctionSpec):
    """An ``AsyncFunction``, or an ``AsyncBatchFunction``: any number of records for each record.

    Attributes:
        settings: how requests are made.
        grouping: which records share a request; None where each has its own.
    """

    settings: RequestSettings
    grouping: Grouping | None = None

    kind: ClassVar[str] = "AsyncWait"
    ignores_event_time: ClassVar[bool] = True
    is_deterministic: ClassVar[bool] = False

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return AsyncOperator(self.function, self.result_type, self.settings, self.grouping)


@dataclass(frozen=True, slots=True)
class LookupSpec(OperatorSpec):
    """Pairs of each record and what is found of its key.

    Attributes:
        reader: finds it.
        key_of: gives the key of a record.
        value_type: the type of what is found.
        settings: how.
    """

    kind: ClassVar[str] = "Lookup"
    ignores_event_time: ClassVar[bool] = True
    reader: LookupReader
    key_of: Callable[[Any], Any]
    value_type: TypeInformation
    settings: LookupSettings

    @property
    def is_deterministic(self) -> bool:
        return self.reader.never_changes

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        return Types.TUPLE([inputs[0].record_type, self.value_type])

    def side_types(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        tag = self.settings.miss_tag
        return {} if tag is None else {tag.tag_id: inputs[0].record_type}

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "it gives pairs, and rows alone can be changes"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return LookupOperator(self.reader, self.key_of, self.output_type(parameters.inputs), self.settings)
