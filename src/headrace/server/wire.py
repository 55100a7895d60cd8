"""Models on the wire: dataclasses whose fields have the names that Flink's REST API gives them."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, dataclass_transform

from headrace.common.masking import without_secrets

_NAME: Final = "name"
_OMITS: Final = "omits_none"


T = TypeVar("T")


def wire(name: str, *, omits_none: bool = False) -> Any:
    """A field of a model.

    Args:
        name: its name on the wire.
        omits_none: whether it is left out where it is None.
    """
    return dataclasses.field(metadata={_NAME: name, _OMITS: omits_none})


@dataclass_transform(frozen_default=True, field_specifiers=(wire,))
def model(kind: type[T]) -> type[T]:
    """Make a class a model: a frozen dataclass, whose fields may be :func:`wire`."""
    return dataclasses.dataclass(frozen=True, slots=True)(kind)


_PLAIN: Final = frozenset({str, int, bool, type(None)})


@cache
def wire_fields(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """The fields of a model, each with its name on the wire, and whether it is left out where it is None."""
    fields = dataclasses.fields(kind)
    return tuple((each.name, each.metadata.get(_NAME, each.name), each.metadata.get(_OMITS, False)) for each in fields)


def to_document(value: Any) -> Any:
    """The JSON of a value: objects for models and mappings, arrays for sequences; texts without secrets."""
    if value.__class__ in _PLAIN:
        return without_secrets(value) if value.__class__ is str else value
    if dataclasses.is_dataclass(value):
        return {
            name: to_document(part)
            for field, name, omits_none in wire_fields(value.__class__)
            if (part := getattr(value, field)) is not None or not omits_none
        }
    if isinstance(value, Mapping):
        return {str(key): to_document(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_document(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE.get(value, "NaN")
    return value


def parts_of(value: Any) -> dict[str, Any]:
    """The fields of a model, by their names in Python."""
    return {field: getattr(value, field) for field, _, _ in wire_fields(value.__class__)}


_NOT_FINITE: Final[Mapping[float, str]] = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""JSON has no numbers for these; Flink writes them so."""

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
        schemas: those of all requested models, and of what they consist of.
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
                "properties": {wired: self.schema_of(hints[field]) for field, wired, _ in wire_fields(kind)},
            }
        return {"$ref": f"#/components/schemas/{name}"}
