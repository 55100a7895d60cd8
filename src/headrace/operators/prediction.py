"""Predictions: columns that a model computes from features, behind those of each row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.typeinfo import TypeInformation
from headrace.expressions import Bound
from headrace.operators.asynchronous.requesting_operator import RequestingOperator
from headrace.operators.asynchronous.requests import (
    Intake,
    Request,
    RequestedBatch,
    RequestFunction,
    Requests,
    RequestSettings,
)
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.operators.functions import FunctionContext
from headrace.operators.stateless import computed, user_code_of
from headrace.operators.user_code import NO_RECORD, UserCodeGuard, user_error


class Predictor(ABC):
    """A model that is open in an operator."""

    @abstractmethod
    def open(self, context: FunctionContext) -> Any:
        """Called before the first prediction; of a predictor whose requests are many at a time it may be awaitable."""

    @abstractmethod
    def close(self) -> Any:
        """Called after the last one; likewise."""

    @abstractmethod
    def predict(self, features: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that the model gives, with a row for each of the features."""

    @abstractmethod
    async def predict_async(self, features: pa.RecordBatch) -> pa.RecordBatch:
        """Predict as :meth:`predict` does, while other requests are on their way."""


class Model(ABC):
    """A model that operators open.

    Attributes:
        is_async: whether many requests are made at a time.
        rows_per_call: how many rows a call is about, at most; None for all that come together, and of requests that are
            made many at a time for one.
    """

    is_async: bool
    rows_per_call: int | None

    @property
    @abstractmethod
    def called(self) -> Any:
        """The user's function that predicts, for messages."""

    @abstractmethod
    def create_predictor(self) -> Predictor:
        """A predictor, which is not open yet."""


class Features:
    """The features of a model.

    Args:
        names: their names.
        expressions: gives them, over a row.
    """

    def __init__(self, names: Sequence[str], expressions: Sequence[Bound]) -> None:
        self.names, self.expressions = list(names), list(expressions)

    def of(self, batch: Batch, context: OperatorContext) -> pa.RecordBatch:
        """The features of rows."""
        return pa.RecordBatch.from_arrays(computed(self.expressions, batch, context), names=self.names)


def _with_predictions(batch: Batch, made: Sequence[pa.RecordBatch], output_type: TypeInformation) -> Batch:
    columns = [pa.concat_arrays([part.column(index) for part in made]) for index in range(made[0].num_columns)]
    rows = pa.RecordBatch.from_arrays([*batch.columns.columns, *columns], schema=layout_of(output_type).schema)
    return batch.replaced(output_type, columns=rows)


def _parts(features: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    return [features.slice(start, size) for start in range(0, features.num_rows, size)]


def _shown(features: pa.RecordBatch) -> Any:
    """The row of features that a call is about, for messages; of several it is not known which one is to blame."""
    return features.to_pylist()[0] if features.num_rows == 1 else NO_RECORD


class PredictOperator(Operator):
    """Calls a model with the features of the rows that come together.

    Args:
        features: the features.
        model: the model.
        output_type: the type of the rows with what the model gives.
    """

    def __init__(self, features: Features, model: Model, output_type: TypeInformation) -> None:
        super().__init__()
        self._features, self._model, self._output_type = features, model, output_type
        self.user_code = user_code_of(features.expressions)
        self._predictor = model.create_predictor()
        self._is_open = False

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        with UserCodeGuard(context):
            self._predictor.open(FunctionContext(context))
        self._is_open = True

    def close(self) -> None:
        try:
            if self._is_open:
                self._is_open = False
                self._predictor.close()
        finally:
            super().close()

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        features = self._features.of(batch, self.context)
        parts = _parts(features, self._model.rows_per_call or len(batch))
        self.output.emit(_with_predictions(batch, list(map(self._predicted, parts)), self._output_type))

    def _predicted(self, features: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self._predictor.predict(features)
        except BaseException as error:
            raise user_error(error, self.context, _shown(features), function=self._model.called) from error


class AsyncPredictOperator(RequestingOperator):
    """Makes many requests of a model at a time; rows leave in their order.

    Args:
        features: the features.
        model: the model.
        output_type: the type of the rows with what the model gives.
        settings: how requests are made.
    """

    def __init__(
        self, features: Features, model: Model, output_type: TypeInformation, settings: RequestSettings
    ) -> None:
        self._predictor, self._features = model.create_predictor(), features
        self._size = model.rows_per_call or 1
        called = RequestFunction(self._predictor.predict_async, _out_of_time, model.called)
        super().__init__(_LifeCycle(self), called, output_type, settings, self._size)
        self.user_code = user_code_of(features.expressions)

    def open_predictor(self) -> Any:
        """Open the predictor, in the loop."""
        return self._predictor.open(FunctionContext(self.context))

    def close_predictor(self) -> Any:
        """Close it, in the loop."""
        return self._predictor.close()

    def _make_intake(self) -> Intake:
        return _PredictionIntake(self._requests)

    def _requested(self, batch: Batch) -> RequestedBatch:
        return RequestedBatch(batch, _parts(self._features.of(batch, self.context), self._size))

    def _emit(self, answers: RequestedBatch) -> None:
        if len(answers.batch):
            self.output.emit(_with_predictions(answers.batch, answers.results, self._output_type))


class _LifeCycle:
    """The methods of an operator that requests begin and end with."""

    def __init__(self, operator: AsyncPredictOperator) -> None:
        self._operator = operator

    def open(self, runtime_context: Any) -> Any:
        return self._operator.open_predictor()

    def close(self) -> Any:
        return self._operator.close_predictor()


class _PredictionIntake:
    """A request for each part of a batch of features."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def add(self, answers: RequestedBatch) -> None:
        self._requests.add([_PredictionRequest(part, answers, index) for index, part in enumerate(answers.rows)])

    def hurry(self, answers: RequestedBatch) -> None:
        """No request waits for more rows."""


class _PredictionRequest(Request):
    """About some rows of features, with what the model gives as its result."""

    __slots__ = ("_answers", "_index")

    def __init__(self, features: pa.RecordBatch, answers: RequestedBatch, index: int) -> None:
        super().__init__(features)
        self._answers, self._index = answers, index

    @property
    def record(self) -> Any:
        return _shown(self.argument)

    def answer(self, results: Any) -> None:
        self._answers.put(self._index, results)


def _out_of_time(_: pa.RecordBatch) -> Any:
    raise TimeoutError(_LATE)


_LATE: Final = "the model gives nothing in time: give more time, or look at why it takes so long"
