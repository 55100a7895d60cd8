"""Changed queries: whether the state of a plan is that of another one, and what is different where it is not.

Operators without state may change: other columns may be computed of results, other rows be filtered out. An operator
with state goes on with it where the same columns come into it, and it does the same with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from headrace.common.logical_types import LogicalType
from headrace.common.masking import is_sensitive
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Scan
from headrace.table.logical.scalars import AggregateCall
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, WatermarkAssigner
from headrace.table.physical.changes import DropUpdateBefore
from headrace.table.physical.node import PhysicalNode, node_line
from headrace.table.physical.scalar_text import calcite_text
from headrace.table.physical.sinks import Sink
from headrace.table.plans.document import CompiledStatements

_WITHOUT_STATE: Final = (Calc, Exchange, DropUpdateBefore)
_UNRELATED: Final = ("names", "mode", "hints", "has_mini_batches")
"""Fields of nodes that state does not depend on."""


class ChangedPlanError(PlanningError):
    """A changed statement cannot go on with the state of the plan before."""


@dataclass
class PlanChange:
    """A plan beside the one before it.

    Attributes:
        uids: the uids of the nodes of the new plan, by the identity of the node.
        changes: what goes on in another way.
        losses: what cannot go on.
    """

    uids: dict[int, Sequence[str]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    def uids_of(self, node: PhysicalNode) -> Sequence[str]:
        """The uids that a node of the new plan keeps."""
        return self.uids.get(id(node), ())


def change_between(before: CompiledStatements, roots: Sequence[PhysicalNode]) -> PlanChange:
    """The changes from a compiled plan to other plans.

    Args:
        before: the compiled plan.
        roots: the plans that are to go on with its state.

    Raises:
        ChangedPlanError: when state would be lost, with all differences.
    """
    found, old = PlanChange(), before.sinks
    for root in roots:
        path = ".".join(root.target.path) if isinstance(root, Sink) else ""
        if path in old:
            _Comparison(before, found, f"INSERT INTO {path}").compare(old.pop(path), root)
        else:
            found.changes.append(f"INSERT INTO {path} is new")
    found.losses += [f"INSERT INTO {path} is gone, and with it its state" for path in old]
    if found.losses:
        losses = "\n".join(f"- {each}" for each in found.losses)
        raise ChangedPlanError(
            f"the statements cannot go on with the state of the plan before:\n{losses}\nKeep what the state is of, or "
            "delete the plan and start the job anew, without its checkpoints"
        )
    return found


@dataclass(frozen=True)
class _Comparison:
    """Compares the plans of one statement.

    Attributes:
        before: the compiled plan.
        found: what has been found so far.
        statement: the statement, for messages.
    """

    before: CompiledStatements
    found: PlanChange
    statement: str

    def compare(self, old: PhysicalNode, new: PhysicalNode) -> None:
        """Compare two trees: operators with state have to be the same, and those between may differ."""
        old_chain, new_chain = _Chain.above(old), _Chain.above(new)
        old, new = old_chain.bottom, new_chain.bottom
        self._compare_chains(old_chain, new_chain)
        if type(old) is not type(new):
            self._lose(f"{old.name} would become {new.name}", old, new)
            return
        for difference in self._differences(old, new):
            self._lose(difference, old, new)
        self.found.uids[id(new)] = self.before.uids_of(old)
        if len(old.inputs) != len(new.inputs):
            self._lose("the number of inputs is another one", old, new)
            return
        for one, other in zip(old.inputs, new.inputs, strict=True):
            self.compare(one, other)

    def _compare_chains(self, old: _Chain, new: _Chain) -> None:
        """Tell of other filters and columns; operators without state keep their uids as far as there are as many."""
        if old.conditions != new.conditions:
            self.found.changes.append(
                f"{self.statement}: rows are filtered by {_listed(new.conditions)}, before by {_listed(old.conditions)}"
            )
        elif old.columns != new.columns:
            self.found.changes.append(
                f"{self.statement}: the columns are {_listed(new.columns)}, before {_listed(old.columns)}"
            )

    def _lose(self, difference: str, old: PhysicalNode, new: PhysicalNode) -> None:
        lines = [node_line(node, calcite_text, with_mode=False) for node in (old, new)]
        self.found.losses.append(f"{self.statement}: {difference}\n    before: {lines[0]}\n    now:    {lines[1]}")

    def _differences(self, old: PhysicalNode, new: PhysicalNode) -> Iterator[str]:
        if isinstance(old, TableSourceScan) and isinstance(new, TableSourceScan):
            yield from _of_scans(old.scan, new.scan)
        elif isinstance(old, Sink) and isinstance(new, Sink):
            if old.target.options != new.target.options:
                yield f"the options of table {'.'.join(new.target.path)} are others"
            if old.materializes:
                yield from _of_state(old, new)
        else:
            yield from _of_state(old, new)


def _of_scans(old: Scan, new: Scan) -> Iterator[str]:
    if old.path != new.path:
        yield f"table {'.'.join(new.path)} would be read in place of {'.'.join(old.path)}"
        return
    before, now = dict(old.options), dict(new.options)
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            difference = (
                "has another value" if is_sensitive(key) else f"is {now.get(key)!r}, before {before.get(key)!r}"
            )
            yield f"the option '{key}' of table {'.'.join(new.path)} {difference}"


def _of_state(old: PhysicalNode, new: PhysicalNode) -> Iterator[str]:
    """The differences between two nodes of a kind that their state depends on."""
    for number, (one, other) in enumerate(zip(old.inputs, new.inputs, strict=False)):
        before, now = _Chain.above(one).columns, _Chain.above(other).columns
        which = f"of input {number + 1} " if len(old.inputs) > 1 else ""
        if before != now:
            yield f"the columns {which}are {_listed(now)}, before {_listed(before)}"
        if one.mode.is_insert_only != other.mode.is_insert_only:
            yield f"the rows {which}are {'only inserted' if other.mode.is_insert_only else 'updated or deleted'} now"
    names = [each.name for each in fields(old) if each.name not in _UNRELATED]
    for name in names:
        one, other = _without_name(getattr(old, name)), _without_name(getattr(new, name))
        if one != other and not isinstance(one, PhysicalNode) and not isinstance(old, Sink):
            yield f"its {name.replace('_', ' ')} would be others"


@dataclass(frozen=True)
class _Chain:
    """Nodes without state above one with state, or above a source.

    Attributes:
        bottom: the latter.
        texts: what each column of the topmost one is, over the columns of the bottom.
        types: the types of these columns.
        conditions: the conditions of filters, over the columns of the bottom.
    """

    bottom: PhysicalNode
    texts: tuple[str, ...]
    types: tuple[LogicalType, ...]
    conditions: tuple[str, ...] = ()

    @staticmethod
    def above(node: PhysicalNode) -> _Chain:
        """The chain that begins with a node."""
        if not isinstance(node, _WITHOUT_STATE):
            is_of_table = isinstance(node, TableSourceScan | WatermarkAssigner)
            names = node.schema.names if is_of_table else [f"${place}" for place in range(len(node.schema))]
            return _Chain(node, tuple(names), node.schema.types)
        below = _Chain.above(node.inputs[0])
        if not isinstance(node, Calc):
            return below
        texts = tuple(calcite_text(each, below.texts) for each in node.expressions)
        types = tuple(each.type for each in node.expressions)
        conditions = () if node.condition is None else (calcite_text(node.condition, below.texts),)
        return _Chain(below.bottom, texts, types, (*below.conditions, *conditions))

    @property
    def columns(self) -> list[str]:
        """The columns with their types."""
        return [f"{text} {kind}" for text, kind in zip(self.texts, self.types, strict=True)]


def _without_name(value: Any) -> Any:
    """A value of a field without the names that a query gives to results."""
    if isinstance(value, tuple):
        return tuple(map(_without_name, value))
    return replace(value, name=None) if isinstance(value, AggregateCall) else value


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"
