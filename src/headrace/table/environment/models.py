"""``ModelDescriptor``, and the methods of environments for models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.config_options import ConfigOption
from headrace.common.errors import expect
from headrace.table.environment.descriptors import option_key, option_text
from headrace.table.environment.schema import Schema
from headrace.table.parse.format import literal

if TYPE_CHECKING:
    from headrace.table.catalog.manager import CatalogManager
    from headrace.table.catalog.objects import ObjectPath
    from headrace.table.environment.table_result import TableResult


@dataclass(frozen=True)
class ModelDescriptor:
    """The definition of a model: its inputs, its outputs, its provider, and the provider's options.

    Examples:
        >>> from headrace.table import DataTypes, ModelDescriptor, Schema
        >>> review = Schema.new_builder().column("review", DataTypes.STRING()).build()
        >>> mood = Schema.new_builder().column("mood", DataTypes.STRING()).build()
        >>> model = ModelDescriptor.for_provider("python").input_schema(review).output_schema(mood)
        >>> print(model.option("model", "moods.mood_of").build())
        INPUT (
          `review` STRING
        )
        OUTPUT (
          `mood` STRING
        )
        WITH (
          'provider' = 'python',
          'model' = 'moods.mood_of'
        )
    """

    inputs: Schema | None
    outputs: Schema | None
    options: Mapping[str, str]
    comment: str | None = None

    @staticmethod
    def for_provider(provider: str) -> ModelDescriptor.Builder:
        """Begin the descriptor of a model of a provider."""
        return ModelDescriptor.Builder(provider)

    def get_input_schema(self) -> Schema | None:
        """The columns that the model takes."""
        return self.inputs

    def get_output_schema(self) -> Schema | None:
        """The columns that the model gives."""
        return self.outputs

    def get_options(self) -> dict[str, str]:
        """The options, ``provider`` included."""
        return dict(self.options)

    def get_comment(self) -> str | None:
        """The comment."""
        return self.comment

    def __str__(self) -> str:
        """The clauses that follow the name of the model in ``CREATE MODEL``."""
        clauses = [f"{word} {given}" for word, given in (("INPUT", self.inputs), ("OUTPUT", self.outputs)) if given]
        if self.comment is not None:
            clauses.append(f"COMMENT {literal(self.comment)}")
        options = ",\n  ".join(f"{literal(key)} = {literal(value)}" for key, value in self.options.items())
        return "\n".join([*clauses, f"WITH (\n  {options}\n)"])

    def __hash__(self) -> int:
        return hash(str(self))

    class Builder:
        """Builds a :class:`ModelDescriptor`."""

        def __init__(self, provider: str) -> None:
            self._options = {"provider": provider}
            self._inputs: Schema | None = None
            self._outputs: Schema | None = None
            self._comment: str | None = None

        def input_schema(self, schema: Schema) -> ModelDescriptor.Builder:
            """Set the columns that the model takes."""
            expect(schema, Schema, "ModelDescriptor.input_schema")
            self._inputs = schema
            return self

        def output_schema(self, schema: Schema) -> ModelDescriptor.Builder:
            """Set the columns that the model gives."""
            expect(schema, Schema, "ModelDescriptor.output_schema")
            self._outputs = schema
            return self

        def option(self, key: str | ConfigOption[Any], value: Any) -> ModelDescriptor.Builder:
            """Set an option of the provider."""
            self._options[option_key(key)] = option_text(value)
            return self

        def comment(self, comment: str) -> ModelDescriptor.Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> ModelDescriptor:
            """The descriptor."""
            return ModelDescriptor(self._inputs, self._outputs, dict(self._options), self._comment)


class ModelMethods:
    """The methods of environments for models, by the statements that they stand for."""

    catalogs: CatalogManager

    @abstractmethod
    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement."""

    @abstractmethod
    def path_of(self, text: str) -> ObjectPath:
        """The full path of an object that a program names as in SQL."""

    def create_model(self, path: str, descriptor: ModelDescriptor, ignore_if_exists: bool = False) -> None:
        """Create a model in the catalog.

        Args:
            path: its path, as in SQL.
            descriptor: its definition.
            ignore_if_exists: whether nothing happens if the model exists already.

        Raises:
            SqlValidationError: when the definition is not valid, or the model exists already.
        """
        self._create(f"MODEL{' IF NOT EXISTS' if ignore_if_exists else ''}", path, descriptor)

    def create_temporary_model(self, path: str, descriptor: ModelDescriptor, ignore_if_exists: bool = False) -> None:
        """Create a model that exists until the session ends; arguments as those of :meth:`create_model`.

        Raises:
            SqlValidationError: when the definition is not valid, or the model exists already.
        """
        self._create(f"TEMPORARY MODEL{' IF NOT EXISTS' if ignore_if_exists else ''}", path, descriptor)

    def drop_model(self, path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a model; False when there was none, which is an error unless it is to be ignored."""
        there = self.path_of(path) in self.catalogs.models
        self.execute_sql(f"DROP MODEL {'IF EXISTS ' if ignore_if_not_exists else ''}{path}")
        return there

    def drop_temporary_model(self, path: str) -> bool:
        """Drop a temporary model; False when there was none."""
        return self.catalogs.temporary_models.pop(self.path_of(path), None) is not None

    def list_models(self) -> list[str]:
        """The names of the models of the current database, temporary ones included."""
        here = self.catalogs.qualify(("",))[:2]
        known = {*self.catalogs.models, *self.catalogs.temporary_models}
        return sorted(path.name for path in known if path[:2] == here)

    def list_temporary_models(self) -> list[str]:
        """The names of the temporary models of the current database."""
        here = self.catalogs.qualify(("",))[:2]
        return sorted(path.name for path in self.catalogs.temporary_models if path[:2] == here)

    def _create(self, kind: str, path: str, descriptor: ModelDescriptor) -> None:
        expect(descriptor, ModelDescriptor, "create_model")
        self.execute_sql(f"CREATE {kind} {path}\n{descriptor}")
