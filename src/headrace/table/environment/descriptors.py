"""Descriptors: definitions of tables, formats and models in Python, as ``CREATE TABLE`` and ``CREATE MODEL`` in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.common.config_options import ConfigOption
from headrace.common.errors import InvalidProgramError, expect
from headrace.table.environment.schema import Schema
from headrace.table.parse.format import literal, quoted

_FORMAT: Final = "format"


@dataclass(frozen=True)
class FormatDescriptor:
    """A format and its options, whose keys do not begin with the format's name.

    Examples:
        >>> from headrace.table import FormatDescriptor
        >>> FormatDescriptor.for_format("json").option("ignore-parse-errors", "true").build()
        json[{'ignore-parse-errors': 'true'}]
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Begin the descriptor of a format."""
        return FormatDescriptor.Builder(format)

    def get_format(self) -> str:
        """The name of the format."""
        return self.format

    def get_options(self) -> dict[str, str]:
        """The options."""
        return dict(self.options)

    def __repr__(self) -> str:
        return f"{self.format}[{dict(self.options)}]"

    def __hash__(self) -> int:
        return hash((self.format, frozenset(self.options.items())))

    class Builder:
        """Builds a :class:`FormatDescriptor`."""

        def __init__(self, format: str) -> None:
            self._format = format
            self._options: dict[str, str] = {}

        def option(self, key: str | ConfigOption[Any], value: Any) -> FormatDescriptor.Builder:
            """Set an option."""
            self._options[_option_key(key)] = _option_text(value)
            return self

        def build(self) -> FormatDescriptor:
            """The descriptor."""
            return FormatDescriptor(self._format, dict(self._options))


@dataclass(frozen=True)
class TableDescriptor:
    """The definition of a table: its schema, its connector, and the connector's options.

    Examples:
        >>> from headrace.table import DataTypes, Schema, TableDescriptor
        >>> schema = Schema.new_builder().column("n", DataTypes.BIGINT()).build()
        >>> print(TableDescriptor.for_connector("datagen").schema(schema).option("number-of-rows", 10).build())
        (
          `n` BIGINT
        )
        WITH (
          'connector' = 'datagen',
          'number-of-rows' = '10'
        )
    """

    schema: Schema | None
    options: Mapping[str, str]
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Begin the descriptor of a table of a connector."""
        return TableDescriptor.Builder(connector)

    def get_schema(self) -> Schema | None:
        """The schema."""
        return self.schema

    def get_options(self) -> dict[str, str]:
        """The options, ``connector`` and those of formats included."""
        return dict(self.options)

    def get_partition_keys(self) -> list[str]:
        """The columns by which the table is partitioned."""
        return list(self.partition_keys)

    def get_comment(self) -> str | None:
        """The comment."""
        return self.comment

    def __str__(self) -> str:
        """The clauses that follow the name of the table in ``CREATE TABLE``."""
        clauses = [] if self.schema is None else [str(self.schema)]
        if self.comment is not None:
            clauses.append(f"COMMENT {literal(self.comment)}")
        if self.partition_keys:
            clauses.append(f"PARTITIONED BY ({', '.join(map(quoted, self.partition_keys))})")
        options = ",\n  ".join(f"{literal(key)} = {literal(value)}" for key, value in self.options.items())
        return "\n".join([*clauses, f"WITH (\n  {options}\n)"])

    def __hash__(self) -> int:
        return hash(str(self))

    def definition(self, path: str, kind: str = "TABLE") -> str:
        """The statement that creates the table.

        Args:
            path: the path of the table, as in SQL.
            kind: what to create, such as ``TEMPORARY TABLE``.

        Raises:
            InvalidProgramError: when it has no schema.
        """
        if self.schema is None:
            raise InvalidProgramError(f"the descriptor of table {path} has no schema: give it one by schema(...)")
        return f"CREATE {kind} {path} {self}"

    class Builder:
        """Builds a :class:`TableDescriptor`."""

        def __init__(self, connector: str) -> None:
            self._options = {"connector": connector}
            self._schema: Schema | None = None
            self._partition_keys: tuple[str, ...] = ()
            self._comment: str | None = None

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the columns, the watermark and the primary key."""
            expect(schema, Schema, "TableDescriptor.schema")
            self._schema = schema
            return self

        def option(self, key: str | ConfigOption[Any], value: Any) -> TableDescriptor.Builder:
            """Set an option of the connector."""
            self._options[_option_key(key)] = _option_text(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: ConfigOption[str] | None = None
        ) -> TableDescriptor.Builder:
            """Set a format.

            Args:
                format: the format, with its options if it has some.
                format_option: the option that names the format; ``format`` by default.
            """
            given = format if isinstance(format, FormatDescriptor) else FormatDescriptor(format)
            key = _FORMAT if format_option is None else _option_key(format_option)
            prefix = f"{key.removesuffix(_FORMAT)}{given.format}"
            self._options[key] = given.format
            self._options.update({f"{prefix}.{name}": value for name, value in given.options.items()})
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Set the columns by which the table is partitioned."""
            self._partition_keys += partition_keys
            return self

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """The descriptor."""
            return TableDescriptor(self._schema, dict(self._options), self._partition_keys, self._comment)


def _option_key(key: str | ConfigOption[Any]) -> str:
    return key.key if isinstance(key, ConfigOption) else key


def _option_text(value: Any) -> str:
    """The text of an option's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


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
            self._options[_option_key(key)] = _option_text(value)
            return self

        def comment(self, comment: str) -> ModelDescriptor.Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> ModelDescriptor:
            """The descriptor."""
            return ModelDescriptor(self._inputs, self._outputs, dict(self._options), self._comment)
