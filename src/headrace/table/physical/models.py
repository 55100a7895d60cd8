"""``ML_PREDICT``: rows with the columns that a model gives for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from headrace.common.configuration import Configuration
from headrace.graph.process_specs import PredictSpec
from headrace.table.logical.models import MLPredict, ModelCall
from headrace.table.logical.scalars import Cast, InputRef, Scalar
from headrace.table.logical.schema import Schema
from headrace.table.models.calls import CAPACITY, TIMEOUT, config_of, opened_model
from headrace.table.options import PREDICT_CAPACITY, PREDICT_TIMEOUT
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.compilation import compiled_all
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.keys import Keys
from headrace.table.physical.literal_text import model_call_text, record_type_text
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms
from headrace.table.physical.translation import GraphBuilder, record_type

if TYPE_CHECKING:
    from headrace.operators.asynchronous.requests import RequestSettings


@dataclass(frozen=True)
class MLPredictTableFunction(PhysicalNode):
    """Calls a model with columns of each row."""

    name: ClassVar[str] = "MLPredictTableFunction"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    call: ModelCall

    @cached_property
    def schema(self) -> Schema:
        return self.call.results(self.input.schema)

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def terms(self, text: ScalarText) -> Terms:
        names, types = self.schema.names, self.schema.types
        yield "invocation", model_call_text(self.call, self.input.schema.names)
        yield "rowType", record_type_text(names, types, [field.time for field in self.schema])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        from headrace.operators.prediction import Features

        model = opened_model(self.call)
        refs = InputRef.all_of(self.input.schema)
        pairs = zip(self.call.features, self.call.inputs.types, strict=True)
        columns: list[Scalar] = [Cast(refs[index], type=kind.as_nullable()) for index, kind in pairs]
        features = Features(self.call.inputs.names, compiled_all(columns, self.input.schema, builder.settings))
        settings = self._requests(builder.settings) if model.is_async else None
        spec = PredictSpec(features, model, record_type(self.schema), settings)
        return builder.add(spec, f"{self.name}: {self.call.path[-1]}", *inputs)

    def _requests(self, settings: Configuration) -> RequestSettings:
        from headrace.operators.asynchronous.requests import RequestSettings
        from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY

        config = config_of(self.call)
        timeout, capacity = config.get(TIMEOUT), config.get(CAPACITY)
        return RequestSettings(
            settings.get(PREDICT_TIMEOUT) if timeout is None else timeout,
            settings.get(PREDICT_CAPACITY) if capacity is None else capacity,
            False,
            NO_RETRY_STRATEGY,
        )


@conversion_rule(MLPredict)
def _predict(predict: MLPredict, context: ConversionContext) -> PhysicalNode:
    return MLPredictTableFunction(converted(predict.input, context), predict.call)
