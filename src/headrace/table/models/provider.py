"""Providers of models, by the name in ``'provider'``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from headrace.common.logical_types import RowType
from headrace.common.plugins import Plugin, PluginGroup
from headrace.operators.prediction import Model


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
        "write an async def that asks the service, and name it as 'model' of the provider 'python'",
    ),
)
"""All providers of models."""
