"""Providers of models, by the name in ``'provider'``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from headrace.common.config_options import ConfigOption, boolean, choice, duration, integer
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.logical_types import RowType
from headrace.common.plugins import Plugin, PluginGroup
from headrace.operators.prediction import Model
from headrace.table.logical.models import ModelCall


@dataclass(frozen=True, slots=True)
class ModelContext:
    """A model of the catalog.

    Attributes:
        path: catalog, database and name.
        inputs: the columns that it takes.
        outputs: the columns that it gives.
        options: the options of ``WITH``, without ``provider``, overridden by those of a call.
        is_async: whether many requests are made at a time; None if that is left to the provider.
    """

    path: tuple[str, str, str]
    inputs: RowType
    outputs: RowType
    options: Mapping[str, str] = field(default_factory=dict)
    is_async: bool | None = None

    @property
    def name(self) -> str:
        """The full name, for messages."""
        return ".".join(self.path)


class ModelProvider(Plugin):
    """A provider of models (Flink's ``ModelProvider``)."""

    noun: ClassVar[str] = "model provider"

    @abstractmethod
    def create_model(self, context: ModelContext) -> Model:
        """The model that operators open.

        Raises:
            ConfigurationError: when options of the model are wrong.
            InvalidProgramError: when there is no such model.
        """


MODEL_PROVIDERS: Final = PluginGroup(
    "headrace.table.models",
    ModelProvider,
    {"python": "headrace.table.models.python:PythonModels"},
    dict.fromkeys(
        ("openai", "triton"),
        "write an async def that calls the service, and name it as 'model' of the provider 'python'",
    ),
)
"""All providers of models."""


PROVIDER: Final = ConfigOption("provider", str, "", "The provider of the model.")
ASYNC: Final = ConfigOption[bool | None]("async", boolean, None, "Whether many requests are made at a time.")
OUTPUT_MODE: Final = ConfigOption[str | None](
    "output-mode", choice("ORDERED", "ALLOW_UNORDERED"), None, "In which order rows may leave; they leave in theirs."
)
CAPACITY: Final = ConfigOption[int | None](
    "max-concurrent-operations", integer(1, 2**31 - 1), None, "How many requests are made at a time."
)
TIMEOUT: Final = ConfigOption[int | None]("timeout", duration, None, "How long a request may take.")

_OF_CALLS: Final[tuple[ConfigOption[Any], ...]] = (ASYNC, OUTPUT_MODE, CAPACITY, TIMEOUT)
CALL_OPTIONS: Final = tuple(option.key for option in _OF_CALLS)
"""The keys of the options that say how requests are made."""


def config_of(call: ModelCall) -> Configuration:
    """The options of a call that say how requests are made.

    Raises:
        ConfigurationError: when a value cannot be read.
    """
    known = {option.key: option for option in _OF_CALLS}
    config = Configuration.from_dict({key: value for key, value in call.config if key in known})
    for option in known.values():
        config.get(option)
    return config


def opened_model(call: ModelCall) -> Model:
    """The model that operators open for a call.

    Raises:
        ConfigurationError: when an option of the model or of the call is wrong.
        InvalidProgramError: when there is no such model.
    """
    with _naming_model(call):
        config = config_of(call)
        options = dict(call.options) | {key: value for key, value in call.config if key not in CALL_OPTIONS}
        if PROVIDER.key not in options:
            raise ConfigurationError(
                f"it has no option '{PROVIDER.key}', which says what predicts: WITH ('provider' = 'python')"
            )
        provider = MODEL_PROVIDERS.load(options.pop(PROVIDER.key))
        inputs, outputs = call.inputs.row_type(), call.outputs.row_type()
        return provider.create_model(ModelContext(call.path, inputs, outputs, options, config.get(ASYNC)))


@contextmanager
def _naming_model(call: ModelCall) -> Iterator[None]:
    """Add the name of the model to errors."""
    try:
        yield
    except (ConfigurationError, InvalidProgramError) as error:
        raise type(error)(f"model {'.'.join(call.path)}: {error}") from error
