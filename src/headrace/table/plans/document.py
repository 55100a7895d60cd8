"""Compiled plans: what is computed, with the uids of all operators, apart from catalogs and from rules.

In the document, a node is an object of its fields, named by its class; a node that several others read comes once.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final, Protocol

from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError
from headrace.common.masking import is_sensitive, without_secrets
from headrace.common.secret_references import has_reference
from headrace.graph.stream_graph import StreamGraph
from headrace.table.connectors.table_sink import TableSink
from headrace.table.connectors.table_source import TableSource
from headrace.table.functions.definitions import FunctionDefinition
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.models import ModelCall
from headrace.table.logical.relations import Scan
from headrace.table.logical.relations import Sink as LogicalSink
from headrace.table.physical.basic import TableSourceScan
from headrace.table.physical.conversion import ConversionContext, table_sink, table_source
from headrace.table.physical.node import Edges, PhysicalNode, node_line
from headrace.table.physical.scalar_text import calcite_text
from headrace.table.physical.sinks import Sink
from headrace.table.physical.translation import GraphBuilder, is_shareable

Json = Any

_PACKAGE: Final = "headrace"
_CLASS, _NODE, _VALUE = "@type", "@node", "@value"
_SET, _ENUM, _DECIMAL, _BYTES, _FLOAT, _FUNCTION = "@set", "@enum", "@decimal", "@bytes", "@float", "@function"
_SECRET: Final = "@secret"

_PARTS: Final = ("common", "operators", "table")
"""The packages whose values plans are made of."""

_NOT_READ: Final = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""The errors of reading a document that has something else than it should have."""

_DAMAGED: Final = "It is damaged, or was compiled by a newer version"


class PlanSession(Protocol):
    """Finds what a compiled plan only names in the session that executes it."""

    def function(self, path: tuple[str, ...]) -> FunctionDefinition:
        """The user-defined function of a path.

        Raises:
            PlanningError: when there is none.
        """
        ...

    def secret(self, kind: str, path: tuple[str, ...], key: str) -> str:
        """The secret that is an option of a ``table`` or a ``model`` of the catalog.

        Raises:
            PlanningError: when there is none.
        """
        ...


class PlanEncoder:
    """Writes the nodes of plans.

    Attributes:
        nodes: the nodes by their ids, each behind those that it reads.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, PhysicalNode] = {}
        self.documents: list[Json] = []
        self._ids: dict[Hashable, int] = {}

    def add(self, node: PhysicalNode) -> int:
        """The id of a node, which is written unless it has been.

        Raises:
            PlanningError: when it holds what exists in this session alone.
        """
        key: Hashable = node if is_shareable(node) else id(node)
        if key not in self._ids:
            document = {_CLASS: type(node).__name__, **self._fields(node)}
            number = self._ids[key] = len(self._ids) + 1
            self.nodes[number] = node
            self.documents.append({"id": number, **document})
        return self._ids[key]

    def _fields(self, value: Any) -> dict[str, Json]:
        return {
            field.name: self._field(value, field.name, given)
            for field in fields(value)
            if field.metadata.get("is_in_plans", True)
            and not _is_default(field, given := getattr(value, field.name))
            and not isinstance(given, TableSource | TableSink)
        }

    def _field(self, owner: Any, name: str, given: Any) -> Json:
        kind = _OWNERS.get(type(owner))
        if kind is not None and name == "options":
            return [[key, {_SECRET: [kind, *owner.path, key]} if is_secret(key, text) else text] for key, text in given]
        if kind is not None and name == "config" and (wrong := [key for key, text in given if is_secret(key, text)]):
            raise secret_in_statement(wrong[0])
        return self._encoded(given)

    def _encoded(self, value: Any) -> Json:
        if isinstance(value, PhysicalNode):
            return {_NODE: self.add(value)}
        if isinstance(value, tuple):
            return [self._encoded(each) for each in value]
        if isinstance(value, FunctionDefinition):
            return {_FUNCTION: list(value.path)}
        if isinstance(value, Enum):
            return {_ENUM: _name_of(type(value)), _VALUE: value.name}
        if is_dataclass(value) and not isinstance(value, type):
            if isinstance(getattr(value, "inline", None), TableSource | TableSink):
                raise PlanningError(
                    f"table {'.'.join(getattr(value, 'path', ()))} exists in this program alone, and others execute a "
                    "compiled plan: create the table with a connector"
                )
            return {_CLASS: _name_of(type(value)), **self._fields(value)}
        return _plain(value)


def _plain(value: Any) -> Json:
    """A value without parts."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT: str(value)}
    if isinstance(value, Decimal):
        return {_DECIMAL: str(value)}
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, frozenset):
        members = sorted(value, key=lambda each: str(getattr(each, "name", each)))
        return {_SET: [_member(each) for each in members]}
    raise PlanningError(f"a compiled plan cannot hold a {type(value).__qualname__}, as {str(value)[:80]!r} is one")


def _member(value: Any) -> Json:
    return {_ENUM: _name_of(type(value)), _VALUE: value.name} if isinstance(value, Enum) else _plain(value)


_OWNERS: Final[dict[type, str]] = {Scan: "table", LogicalSink: "table", ModelCall: "model"}
"""The classes in a plan that have options of a catalog, and the kinds of their objects."""


def is_secret(key: str, text: object) -> bool:
    """Return whether an option is a secret, and no reference to one."""
    if not isinstance(text, str) or has_reference(text):
        return False
    return is_sensitive(key) or without_secrets(text) != text


def secret_in_statement(key: str) -> PlanningError:
    """The error about a secret that is no option of a table or a model of the catalog."""
    return PlanningError(
        f"the statement has a secret in it, the option '{key}', and a compiled plan has none: write a reference to it, "
        "'${env:NAME}', or give the option where the table or the model is created"
    )


class PlanDecoder:
    """Reads the nodes of plans.

    Args:
        context: what connectors are created with.
        session: finds what a plan only names.
    """

    def __init__(self, context: ConversionContext, session: PlanSession) -> None:
        self._context, self._session = context, session
        self.nodes: dict[int, PhysicalNode] = {}

    def add(self, document: Json) -> None:
        """Read a node, which reads those before it.

        Raises:
            PlanningError: when the plan is damaged, or of a newer version.
        """
        try:
            values = {name: self._decoded(value) for name, value in document.items() if name not in (_CLASS, "id")}
            self.nodes[document["id"]] = self._node(_node_class(document[_CLASS]), values)
        except HeadraceError:
            raise
        except _NOT_READ as error:
            raise PlanningError(
                f"the compiled plan cannot be read at node {document.get('id')}, {document.get(_CLASS)}: {error!r}. "
                f"{_DAMAGED}"
            ) from error

    def _node(self, kind: type[PhysicalNode], values: dict[str, Any]) -> PhysicalNode:
        if issubclass(kind, TableSourceScan):
            values["source"] = table_source(values["scan"], self._context)
        if issubclass(kind, Sink):
            values["sink"] = table_sink(values["target"], self._context)
        return kind(**values)

    def _decoded(self, value: Json) -> Any:
        if isinstance(value, list):
            return tuple(map(self._decoded, value))
        if not isinstance(value, dict):
            return value
        if _CLASS in value:
            kind = _value_class(value[_CLASS])
            return kind(**{name: self._decoded(each) for name, each in value.items() if name != _CLASS})
        return self._tagged(value)

    def _tagged(self, value: dict[str, Json]) -> Any:
        ((tag, given),) = ((name, each) for name, each in value.items() if name != _VALUE)
        if tag == _NODE:
            return self.nodes[given]
        if tag == _ENUM:
            return _enum_of(given)[value[_VALUE]]
        if tag == _SET:
            return frozenset(map(self._decoded, given))
        if tag == _SECRET:
            kind, *path, key = given
            return self._session.secret(kind, tuple(path), key)
        return self._session.function(tuple(given)) if tag == _FUNCTION else _READERS[tag](given)


def _is_default(field: Field[Any], value: Any) -> bool:
    return field.default is not MISSING and type(value) is type(field.default) and bool(value == field.default)


def _name_of(kind: type) -> str:
    """The name of a class: the package that it is in, whatever the module, and its own."""
    name = f"{_package_of(kind.__module__)}:{kind.__name__}"
    assert _classes(_package_of(kind.__module__)).get(kind.__name__) is kind, f"{name} is not the only one"
    return name


def _package_of(module: str) -> str:
    return ".".join(module.split(".")[1:3])


def _class_of(name: str) -> Any:
    package, _, own = name.partition(":")
    if package.partition(".")[0] not in _PARTS:
        raise PlanningError(f"a compiled plan has no {name}")
    return _classes(package)[own]


def _value_class(name: str) -> Any:
    """The class of a value: one that does nothing when it is made, since a document may name any."""
    kind = _class_of(name)
    made_as = getattr(kind, "__dataclass_params__", None)
    if made_as is None or not made_as.frozen or issubclass(kind, (PhysicalNode, TableSource, TableSink)):
        raise PlanningError(f"a compiled plan has no {name}")
    return kind


def _enum_of(name: str) -> Any:
    kind = _class_of(name)
    if not issubclass(kind, Enum):
        raise PlanningError(f"a compiled plan has no {name}")
    return kind


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    _DECIMAL: Decimal,
    _BYTES: base64.b64decode,
    _FLOAT: float,
}
"""The readers of values without parts."""


def _node_class(name: str) -> type[PhysicalNode]:
    return {kind.__name__: kind for kind in _subclasses(PhysicalNode)}[name]


def _subclasses(kind: type[PhysicalNode]) -> Iterator[type[PhysicalNode]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


@cache
def _classes(package: str) -> dict[str, type]:
    """The classes that are defined in a package."""
    found: dict[str, type] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{_PACKAGE}.") and _package_of(name) == package:
            found |= {key: value for key, value in vars(module).items() if _is_of(value, name)}
    return found


def _is_of(value: object, module: str) -> bool:
    return isinstance(value, type) and value.__module__ == module


def version() -> str:
    """The version of headrace."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of(_PACKAGE)
    except PackageNotFoundError as error:
        raise HeadraceError("headrace is not installed") from error


FORMAT: Final = 1
"""The version of the documents."""
_PREFIX: Final = "table."

UidsOf = Callable[[PhysicalNode], Sequence[str]]
"""The uids that the operators of a node are to have."""


def no_uids(_: PhysicalNode) -> Sequence[str]:
    """No uids: all operators get new ones."""
    return ()


@dataclass(frozen=True)
class CompiledStatements:
    """The plans of ``INSERT`` statements that are one job.

    Attributes:
        roots: the plans.
        is_batch: whether they run in batch mode.
        settings: the table options under which they were compiled.
        uids: the uids of the operators of each node, by the identity of the node.
        version: the version of headrace that compiled them.
    """

    roots: tuple[PhysicalNode, ...]
    is_batch: bool
    settings: Mapping[str, str]
    uids: Mapping[int, Sequence[str]]
    version: str

    @staticmethod
    def of(
        roots: Iterable[PhysicalNode], *, is_batch: bool, settings: Configuration, uids_of: UidsOf = no_uids
    ) -> CompiledStatements:
        """The plans with the uids that their operators get now.

        Args:
            roots: the plans.
            is_batch: whether they run in batch mode.
            settings: those of the session.
            uids_of: the uids that operators are to keep.
        """
        builder = GraphBuilder(StreamGraph(), is_batch, settings, uids_of)
        plans = tuple(roots)
        for root in plans:
            builder.translate(root)
        own = {key: str(value) for key, value in settings.to_dict().items() if key.startswith(_PREFIX)}
        uids = {id(node): made for node, made in builder.made}
        return CompiledStatements(plans, is_batch, own, uids, version())

    def uids_of(self, node: PhysicalNode) -> Sequence[str]:
        """The uids of the operators of a node."""
        return self.uids.get(id(node), ())

    def translated(self, graph: StreamGraph, session: Configuration) -> list[Edges]:
        """The edges that carry the rows of the plans, whose operators are added to a graph.

        Args:
            graph: the graph.
            session: the settings of the session; those of the plan come first.
        """
        builder = GraphBuilder(graph, self.is_batch, self.settings_in(session), self.uids_of)
        return [builder.translate(root) for root in self.roots]

    def settings_in(self, session: Configuration) -> Configuration:
        """The settings of a session, with the table options of the plan in place of its own."""
        return Configuration.from_dict({**session.to_dict(), **self.settings})

    @property
    def sinks(self) -> dict[str, Sink]:
        """The roots by the tables that they write into."""
        return {".".join(root.target.path): root for root in self.roots if isinstance(root, Sink)}

    # --- JSON --------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The document.

        Raises:
            PlanningError: when a plan holds what exists in this session alone.
        """
        encoder = PlanEncoder()
        roots = [encoder.add(root) for root in self.roots]
        for document in encoder.documents:
            node = encoder.nodes[document["id"]]
            document["description"] = node_line(node, calcite_text, with_mode=False)
            if uids := self.uids_of(node):
                document["uids"] = list(uids)
        document = {
            "headraceVersion": self.version,
            "format": FORMAT,
            "mode": "BATCH" if self.is_batch else "STREAMING",
            "settings": dict(sorted(self.settings.items())),
            "nodes": encoder.documents,
            "roots": roots,
        }
        return json.dumps(document, indent=2)

    @staticmethod
    def from_json(text: str, settings: Configuration, session: PlanSession) -> CompiledStatements:
        """The plans of a document.

        Args:
            text: the document.
            settings: those of the session.
            session: finds what the plan only names.

        Raises:
            PlanningError: when it is no compiled plan, is damaged, or is of a newer version.
        """
        document = _read(text)
        with _telling_damage():
            return _statements(document, settings, session)


def _statements(document: dict[str, Json], settings: Configuration, session: PlanSession) -> CompiledStatements:
    is_batch, own = document["mode"] == "BATCH", document["settings"]
    others = sorted(key for key in own if not key.startswith(_PREFIX))
    if others:
        raise PlanningError(f"a compiled plan sets options that begin with {_PREFIX} alone, and not {others[0]}")
    known = Configuration.from_dict({**settings.to_dict(), **own})
    decoder = PlanDecoder(ConversionContext(is_batch, known), session)
    uids: dict[int, Sequence[str]] = {}
    for each in document["nodes"]:
        made = each.pop("uids", ())
        each.pop("description", None)
        decoder.add(each)
        uids[id(decoder.nodes[each["id"]])] = made
    roots = tuple(decoder.nodes[number] for number in document["roots"])
    return CompiledStatements(roots, is_batch, own, uids, document["headraceVersion"])


@contextmanager
def _telling_damage() -> Iterator[None]:
    try:
        yield
    except HeadraceError:
        raise
    except _NOT_READ as error:
        raise PlanningError(f"the compiled plan cannot be read: {error!r}. {_DAMAGED}") from error


def described_operators(text: str) -> dict[str, str]:
    """The origin of each operator of a compiled plan, by its uid: the statements, the node, and the tables it reads.

    Raises:
        PlanningError: when the text is no compiled plan, or is damaged.
    """
    document = _read(text)
    with _telling_damage():
        return _described(document)


def _described(document: dict[str, Json]) -> dict[str, str]:
    nodes = {each["id"]: each for each in document["nodes"]}
    below = {number: _below(number, nodes) for number in nodes}
    found: dict[str, str] = {}
    for number, node in nodes.items():
        roots = [root for root in document["roots"] if number in below[root]]
        statements = ", ".join(f"INSERT INTO {nodes[root]['target']['path'][-1]}" for root in roots)
        scans = [nodes[each]["scan"]["path"][-1] for each in sorted(below[number]) if "scan" in nodes[each]]
        of_tables = f" of {', '.join(dict.fromkeys(scans))}" if scans and "scan" not in node else ""
        described = node.get("description", node["@type"])
        found |= dict.fromkeys(node.get("uids", ()), f"{statements}: {described}{of_tables}")
    return found


def _below(number: int, nodes: Mapping[int, Json]) -> set[int]:
    inputs = [value["@node"] for value in _values(nodes[number]) if isinstance(value, dict) and "@node" in value]
    return {number, *(each for found in inputs for each in _below(found, nodes))}


def _values(node: Json) -> Iterator[Json]:
    for value in node.values():
        yield from value if isinstance(value, list) else (value,)


def _read(text: str) -> dict[str, Json]:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanningError(f"it is no compiled plan: {error}") from error
    if not isinstance(document, dict) or "headraceVersion" not in document:
        hint = ": it is one of Flink, whose plans name operators of Flink" if "flinkVersion" in str(text)[:400] else ""
        raise PlanningError(
            f"it is no compiled plan of headrace{hint}. It is made by COMPILE PLAN '...' FOR INSERT ..."
        )
    if document.get("format") != FORMAT:
        raise PlanningError(
            f"the compiled plan has format {document.get('format')}, of headrace {document['headraceVersion']}, and "
            f"this version reads {FORMAT}: execute it by that version, or a later one"
        )
    return document
