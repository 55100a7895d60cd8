"""``ML_PREDICT``: the relation of rows with what a model gives for them."""

from dataclasses import dataclass
from functools import cached_property

from headrace.table.logical.node import Part
from headrace.table.logical.relations import Relation, TablePath
from headrace.table.logical.schema import Schema, unique_names


@dataclass(frozen=True)
class ModelCall(Part):
    """A call of a model.

    Attributes:
        path: the path of the model.
        inputs: the columns that it takes.
        outputs: the columns that it gives.
        options: those of the model, with its provider.
        features: the columns of the rows that it is called with.
        config: the configuration of the call.
    """

    path: TablePath
    inputs: Schema
    outputs: Schema
    options: tuple[tuple[str, str], ...]
    features: tuple[int, ...]
    config: tuple[tuple[str, str], ...] = ()

    def results(self, given: Schema) -> Schema:
        """The columns of rows with those of the model behind them, whose names are made unique."""
        names = unique_names((*given.names, *self.outputs.names))
        return Schema((*given, *self.outputs)).renamed((*given.names, *names[len(given) :]))


@dataclass(frozen=True)
class MLPredict(Relation):
    """``ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(columns), config)``."""

    input: Relation
    call: ModelCall

    @cached_property
    def schema(self) -> Schema:
        return self.call.results(self.input.schema)
