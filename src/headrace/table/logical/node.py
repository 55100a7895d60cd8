"""Reading and rewriting of trees, derived once for all nodes from the fields of their dataclasses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, TypeVar, cast

NOT_IN_PLANS: Final = {"is_in_plans": False}
"""The metadata of a field that compiled plans do not have."""

_FIELDS: Final[dict[type, tuple[str, ...]]] = {}


class HashedOnce:
    """A frozen dataclass that caches its hash, since hashing a node hashes its whole subtree."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__hash__ = HashedOnce.__hash__  # type: ignore[method-assign] # else the decorator would generate one

    def __hash__(self) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            values = [getattr(self, field.name) for field in fields(self) if field.compare]  # type: ignore[arg-type]
            known = self.__dict__["_hash"] = hash((type(self), *values))
        return int(known)


@dataclass(frozen=True)
class LogicalNode(HashedOnce):
    """A node of a logical tree."""

    def parts(self, kind: "type[N]") -> "tuple[N, ...]":
        """The nodes of a kind in its fields, inside tuples too, in the order of the fields."""
        known: dict[type, Any] = self.__dict__.setdefault("_parts", {})
        if kind not in known:
            found: list[N] = []
            for name in _field_names(type(self)):
                _collect(getattr(self, name), kind, found)
            known[kind] = tuple(found)
        return cast("tuple[N, ...]", known[kind])

    def with_parts(self, kind: "type[N]", parts: "Sequence[N]") -> Self:
        """The same node with other nodes in place of these, in the same order; itself when they are the same ones."""
        if all(new is old for new, old in zip(parts, self.parts(kind), strict=True)):
            return self
        waiting = iter(parts)
        changes: dict[str, Any] = {}
        for name in _field_names(type(self)):
            value = getattr(self, name)
            changed = _replaced(value, kind, waiting)
            if changed is not value:
                changes[name] = changed
        return replace(self, **changes)


N = TypeVar("N", bound=LogicalNode)


def walk(node: N, kind: type[N]) -> Iterator[N]:
    """A node and all of its kind below it, each before its parts."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.parts(kind)))


def transform(node: N, kind: type[N], rule: Callable[[N], N]) -> N:
    """A tree in which the rule has replaced each node of the kind, the deepest ones first."""
    parts = node.parts(kind)
    if parts:
        node = node.with_parts(kind, [transform(part, kind, rule) for part in parts])
    return rule(node)


def _field_names(kind: type) -> tuple[str, ...]:
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(field.name for field in fields(kind))
    return names


def _collect(value: object, kind: type[N], found: list[N]) -> None:
    if isinstance(value, kind):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, kind, found)
    elif isinstance(value, Part):
        for name in _field_names(type(value)):
            _collect(getattr(value, name), kind, found)


def _replaced(value: Any, kind: type[N], waiting: Iterator[N]) -> Any:
    if isinstance(value, kind):
        return next(waiting)
    if isinstance(value, tuple):
        changed = tuple(_replaced(item, kind, waiting) for item in value)
        return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
    if isinstance(value, Part):
        names = _field_names(type(value))
        changes = {name: _replaced(getattr(value, name), kind, waiting) for name in names}
        return value if all(changes[name] is getattr(value, name) for name in names) else replace(value, **changes)
    return value


@dataclass(frozen=True)
class Part:
    """A part of a node that is not a node, but may hold nodes: a branch of ``CASE``, the window of ``OVER``."""
