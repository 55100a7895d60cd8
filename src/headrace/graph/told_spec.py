"""The spec of an operator of which only is known what others have told: it can be shown, and not run."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.common.errors import UnsupportedOperationError
from headrace.graph.specs import InputSchema, OperatorParameters, OperatorSpec, OutputSchema
from headrace.operators.base import Operator


@dataclass(frozen=True, slots=True)
class ToldSpec(OperatorSpec):
    """An operator of a job whose program is not here.

    Attributes:
        notes: what plans say of it beside its name and uid.
        ends: whether it is a sink.
    """

    notes: tuple[str, ...]
    ends: bool

    @property
    def is_sink(self) -> bool:
        return self.ends

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        raise self._unknown()

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        raise self._unknown()

    @staticmethod
    def _unknown() -> UnsupportedOperationError:
        return UnsupportedOperationError("the job was read from what is told of it: it can be shown, and not run")
