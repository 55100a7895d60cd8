"""``'provider' = 'python'``: models that are functions, or classes with a method ``predict``."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.arguments import method_of_object
from headrace.common.config_options import ConfigOption, integer
from headrace.common.errors import ConfigurationError, InvalidProgramError, InvalidTypeError, with_article
from headrace.common.logical_types import RowType
from headrace.common.plugins import imported
from headrace.operators.functions import FunctionContext
from headrace.operators.prediction import Model, Predictor
from headrace.table.functions.python.calls import column_of
from headrace.table.models.provider import ModelContext, ModelProvider

MODEL: Final = ConfigOption("model", str, "", "The function or the class, as 'module.name'.")
BATCH_SIZE: Final = ConfigOption[int | None](
    "batch-size", integer(1, 2**31 - 1), None, "How many rows a call is about, at most."
)
_ARGUMENTS: Final = "arguments"
"""The prefix of options that are keyword arguments of the class, or of the function."""


class PythonModels(ModelProvider):
    """Models that are functions of a batch of features, or classes with a method ``predict``."""

    required_options = (MODEL,)
    optional_options = (BATCH_SIZE,)

    def create_model(self, context: ModelContext) -> Model:
        options, prefix = self.read_options(context.options, _ARGUMENTS), f"{_ARGUMENTS}."
        arguments = {
            key.removeprefix(prefix): value for key, value in context.options.items() if key.startswith(prefix)
        }
        path = options.get(MODEL)
        model = imported(path)
        called = getattr(model, "predict", None) if isinstance(model, type) else model
        if not callable(called):
            raise InvalidProgramError(f"'{path}' is neither a function nor a class with a method predict(features)")
        is_awaited = inspect.iscoroutinefunction(called)
        if not is_awaited and any(
            inspect.iscoroutinefunction(getattr(model, name, None)) for name in ("open", "close")
        ):
            raise InvalidProgramError(f"'{path}' has an open or close that is async def: make predict async def, too")
        if is_awaited and context.is_async is False:
            raise ConfigurationError(f"'async' is 'false', and '{path}' is async def: leave 'async' out")
        return PythonModel(
            path,
            model,
            tuple(sorted(arguments.items())),
            context.outputs,
            is_awaited,
            is_awaited if context.is_async is None else context.is_async,
            options.get(BATCH_SIZE),
        )


@dataclass(frozen=True)
class PythonModel(Model):
    """A function, or a class with a method ``predict``.

    Attributes:
        path: where it is.
        made_of: the function or the class.
        arguments: its keyword arguments.
        outputs: the columns that it gives.
        is_awaited: whether it is awaited.
    """

    path: str
    made_of: Any
    arguments: tuple[tuple[str, str], ...]
    outputs: RowType
    is_awaited: bool
    is_async: bool
    rows_per_call: int | None

    @property
    def called(self) -> Any:
        return getattr(self.made_of, "predict", self.made_of) if isinstance(self.made_of, type) else self.made_of

    def create_predictor(self) -> Predictor:
        if not isinstance(self.made_of, type):
            return _PredictingFunction(self)
        return _PredictingObject(self) if self.is_awaited else _SharedPredictingObject(self)


class _PredictingFunction(Predictor):
    """Calls the function of a model, with what it returns as columns."""

    def __init__(self, model: PythonModel) -> None:
        self._model = model
        self._called: Callable[..., Any] = model.made_of

    def open(self, context: FunctionContext) -> Any:
        self._called = partial(self._model.made_of, **dict(self._model.arguments))

    def close(self) -> Any:
        return None

    def predict(self, features: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(self._called(features), self._model.outputs, features.num_rows)

    async def predict_async(self, features: pa.RecordBatch) -> pa.RecordBatch:
        if not self._model.is_awaited:
            return await asyncio.to_thread(self.predict, features)
        return columns_of(await self._called(features), self._model.outputs, features.num_rows)


class _PredictingObject(_PredictingFunction):
    """Calls an instance of a class, which belongs to one operator as its clients do to an event loop."""

    def open(self, context: FunctionContext) -> Any:
        self._instance = self._model.made_of(**dict(self._model.arguments))
        self._called = self._instance.predict
        return _call(self._instance, "open", context)

    def close(self) -> Any:
        return _call(self._instance, "close")


class _SharedPredictingObject(_PredictingFunction):
    """Calls an instance of a class, of which a process has one."""

    def open(self, context: FunctionContext) -> Any:
        self._called = _INSTANCES.take(self._key, partial(self._made, context)).predict

    def close(self) -> Any:
        _INSTANCES.release(self._key)

    @property
    def _key(self) -> Hashable:
        return self._model.made_of, self._model.arguments

    def _made(self, context: FunctionContext) -> Any:
        instance = self._model.made_of(**dict(self._model.arguments))
        _call(instance, "open", context)
        return instance


class _Instances:
    """Instances of classes, each made with its first use, and closed with the end of its last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Hashable, Any] = {}
        self._uses: dict[Hashable, int] = {}

    def take(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The instance of a key."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            self._uses[key] = self._uses.get(key, 0) + 1
            return self._made[key]

    def release(self, key: Hashable) -> None:
        """The end of a use of it."""
        with self._lock:
            self._uses[key] -= 1
            if self._uses[key]:
                return
            del self._uses[key]
            instance = self._made.pop(key)
        _call(instance, "close")


_INSTANCES: Final = _Instances()


def _call(instance: Any, name: str, *arguments: Any) -> Any:
    """Call a method that an object may have."""
    method = method_of_object(instance, name)
    return None if method is None else method(*arguments)


def columns_of(made: Any, outputs: RowType, count: int) -> pa.RecordBatch:
    """The columns that a model has returned.

    They are a ``RecordBatch``, a ``Table``, a ``DataFrame`` or a mapping with the names of the outputs, a tuple with a
    column for each output, an array of two dimensions, or the column itself where there is one output.

    Raises:
        InvalidTypeError: when they are not of the number, the types or the length that they should be.
    """
    given = _given(made, outputs.names)
    columns = []
    for name, kind, column in zip(outputs.names, outputs.types, given, strict=True):
        try:
            columns.append(column_of(column, kind.arrow_type, count))
            if columns[-1].null_count and not kind.nullable:
                raise ValueError("one is NULL")
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidTypeError(f"the model gave no {kind} for its output {name!r}: {error}") from error
    return pa.RecordBatch.from_arrays(columns, names=list(outputs.names))


def _given(made: Any, names: Sequence[str]) -> Sequence[Any]:
    """A column for each output."""
    if isinstance(made, Mapping | pa.RecordBatch | pa.Table) or hasattr(made, "columns"):
        there = list(made.schema.names if isinstance(made, pa.RecordBatch | pa.Table) else made)
        if missing := [name for name in names if name not in there]:
            raise InvalidTypeError(f"the model gave no output {missing[0]!r}, but {', '.join(map(str, there))}")
        return [made[name] for name in names]
    if isinstance(made, np.ndarray) and made.ndim == 2:
        made = tuple(made.T)
    elif len(names) == 1 and not isinstance(made, tuple):
        return [made]
    if not isinstance(made, tuple):
        raise InvalidTypeError(
            f"the model gave {with_article(type(made))} for {len(names)} outputs: return a dict of columns, or a tuple "
            f"({', '.join(names)})"
        )
    if len(made) != len(names):
        raise InvalidTypeError(f"the model gave {len(made)} columns for {len(names)} outputs: {', '.join(names)}")
    return made
