"""Models on the wire: dataclasses whose fields have the names that Flink's REST API gives them."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, dataclass_transform

_NAME: Final = "name"


T = TypeVar("T")


def wire(name: str) -> Any:
    """A field that has another name on the wire than a name of Python can be."""
    return dataclasses.field(metadata={_NAME: name})


@dataclass_transform(frozen_default=True, field_specifiers=(wire,))
def model(kind: type[T]) -> type[T]:
    """Make a class a model: a frozen dataclass, whose fields may be :func:`wire`."""
    return dataclasses.dataclass(frozen=True, slots=True)(kind)


@cache
def wire_names(kind: Any) -> tuple[tuple[str, str], ...]:
    """The fields of a model, each with its name on the wire."""
    return tuple((field.name, field.metadata.get(_NAME, field.name)) for field in dataclasses.fields(kind))


def to_document(value: Any) -> Any:
    """What JSON has for a value: objects for models and mappings, arrays for sequences."""
    if dataclasses.is_dataclass(value):
        return {name: to_document(getattr(value, field)) for field, name in wire_names(value.__class__)}
    if isinstance(value, Mapping):
        return {str(key): to_document(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_document(each) for each in value]
    return value


_SCALARS: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bool: {"type": "boolean"},
    Any: {},
    object: {},
}


class SchemaBook:
    """Schemas of OpenAPI of models, each model under its own name.

    Attributes:
        schemas: those of all models that were asked for, and of what they consist of.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def schema_of(self, hint: Any) -> dict[str, Any]:
        """The schema of a type, which refers to those of models."""
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        if dataclasses.is_dataclass(hint):
            return self._model(hint)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            return self._union(arguments)
        if origin is typing.Literal:
            return {"type": "string", "enum": list(arguments)}
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema_of(arguments[1])}
        return {"type": "array", "items": self.schema_of(arguments[0])}

    def _union(self, arguments: Sequence[Any]) -> dict[str, Any]:
        present = [each for each in arguments if each is not types.NoneType]
        schema = self.schema_of(present[0]) if len(present) == 1 else {"oneOf": [*map(self.schema_of, present)]}
        return {"oneOf": [schema], "nullable": True} if "$ref" in schema else {**schema, "nullable": True}

    def _model(self, kind: Any) -> dict[str, Any]:
        name = kind.__name__
        if name not in self.schemas:
            self.schemas[name] = {}  # a model may consist of itself
            hints = typing.get_type_hints(kind)
            self.schemas[name] = {
                "type": "object",
                "properties": {wired: self.schema_of(hints[field]) for field, wired in wire_names(kind)},
            }
        return {"$ref": f"#/components/schemas/{name}"}
