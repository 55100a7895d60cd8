"""``'provider' = 'oracle'``: models of which only plans are compared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.operators.prediction import Model
from headrace.table.models.provider import ModelContext, ModelProvider
from headrace.table.models.python import PythonModel


class OracleModels(ModelProvider):
    """Models that give NULLs."""

    def create_model(self, context: ModelContext) -> Model:
        return PythonModel("nulls", nulls, (), context.outputs, False, False, None)


def nulls(features: pa.RecordBatch) -> Any:
    """NULLs for all outputs."""
    return pa.nulls(features.num_rows)
