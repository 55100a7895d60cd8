"""Compiled plans: what is computed, with the uids of all operators, apart from catalogs and from rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError
from headrace.graph.stream_graph import StreamGraph
from headrace.table.logical.errors import PlanningError
from headrace.table.physical.conversion import ConversionContext
from headrace.table.physical.explain import node_line
from headrace.table.physical.node import Edges, PhysicalNode
from headrace.table.physical.scalar_text import calcite_text
from headrace.table.physical.sinks import Sink
from headrace.table.physical.translation import GraphBuilder
from headrace.table.plans.codec import DAMAGED, NOT_READ, Json, PlanDecoder, PlanEncoder, PlanSession, version

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
    except NOT_READ as error:
        raise PlanningError(f"the compiled plan cannot be read: {error!r}. {DAMAGED}") from error


def described_operators(text: str) -> dict[str, str]:
    """What each operator of a compiled plan is part of, by its uid: the statements, the node, and the tables it reads.

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
    """A node and all nodes below it."""
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
        told = ": it is one of Flink, whose plans name operators of Flink" if "flinkVersion" in str(text)[:400] else ""
        raise PlanningError(
            f"it is no compiled plan of headrace{told}. It is made by COMPILE PLAN '...' FOR INSERT ..."
        )
    if document.get("format") != FORMAT:
        raise PlanningError(
            f"the compiled plan has format {document.get('format')}, of headrace {document['headraceVersion']}, and "
            f"this version reads {FORMAT}: execute it by that version, or a later one"
        )
    return document
