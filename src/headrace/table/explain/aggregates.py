"""Aggregates of batch mode in Flink's plans: in two phases, of sorted rows, and of distinct values.

What is executed is one aggregate. Flink's planner computes distinct aggregates by grouping twice: first by their
arguments as well, where several of them need a copy of each row for each set of arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.explain.distributions import is_distributed
from headrace.table.explain.phases import WHOLE_IN_BATCH, Phase, Work, partial_calls
from headrace.table.functions.types import BIGINT
from headrace.table.logical.scalars import BOOLEAN, AggregateCall, Branch, Call, Case, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema, unique_names
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Exchange, projected
from headrace.table.physical.call_texts import call_texts
from headrace.table.physical.node import PhysicalNode, names_text

_UNMERGED: Final = frozenset(("FIRST_VALUE", "LAST_VALUE", "JSON_ARRAYAGG"))
_SORTED: Final = WHOLE_IN_BATCH | {"LISTAGG"}
_VARYING: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)


@dataclass(frozen=True)
class _Grouping:
    """An aggregate of batch mode.

    Attributes:
        source: what it reads.
        group: the grouping columns.
        calls: the calls.
        schema: its columns.
        in_one_phase: whether there are no partial results.
    """

    source: PhysicalNode
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    schema: Schema
    in_one_phase: bool = False

    @staticmethod
    def of(
        source: PhysicalNode, group: Sequence[int], calls: Sequence[AggregateCall], names: Sequence[str]
    ) -> _Grouping:
        """An aggregate whose grouping columns keep their names, and whose results have some."""
        fields = [source.schema[index] for index in group]
        results = (Field(name, call.type) for name, call in zip(names, calls, strict=True))
        return _Grouping(source, tuple(group), tuple(calls), Schema((*fields, *results)))

    @property
    def has_unique_rows(self) -> bool:
        """Return whether each group is a single row."""
        return any(key and key <= set(self.group) for key in self.source.upsert_keys)

    @property
    def keys(self) -> tuple[int, ...]:
        """The grouping columns that tell groups apart."""
        known = [key for key in self.source.upsert_keys if key and key <= set(self.group)]
        kept = min(known, key=sorted, default=frozenset(self.group))
        return tuple(index for index in self.group if index in kept)

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the results."""
        return self.schema.names[len(self.group) :]

    @property
    def key_texts(self) -> list[str]:
        """The columns of the key in the form of plans."""
        given, names = self.source.schema.names, self.schema.names
        pairs = zip(self.group, names, strict=False)
        return [given[index] if given[index] == name else f"{given[index]} AS {name}" for index, name in pairs]

    def terms(self, calls: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The terms of a phase with these calls."""
        given, keys = self.source.schema.names, self.keys
        others = [given[index] for index in self.group if index not in keys]
        grouped = (("groupBy", names_text([given[index] for index in keys])),) if keys else ()
        grouped = (*grouped, ("auxGrouping", names_text(others))) if others else grouped
        return (*grouped, ("select", names_text([*self.key_texts, *calls])))


def aggregate_phases(node: GroupAggregate) -> PhysicalNode | None:
    """The phases of an aggregate; None where Flink has a single node."""
    if not isinstance(node.input, Exchange):
        return None
    return _phases(_Grouping(node.input.input, node.group, node.calls, node.schema, node.in_one_phase))


def _phases(node: _Grouping) -> PhysicalNode | None:
    if any(call.is_distinct for call in node.calls):
        return _of_distinct(node)
    if any(call.function in _UNMERGED for call in node.calls):
        return _alone(node, is_sorted=True)
    is_sorted = any(_has_varying_size(call) for call in node.calls)
    found = partial_calls(node.calls, node.results, node.source.schema.names)
    if found is None:
        return None
    if is_distributed(node.source, node.group):
        return _merged(node.source, node, "SortAggregate" if _is_sorted(node.source) else "HashAggregate")
    if node.in_one_phase or node.has_unique_rows:
        return _alone(node, is_sorted=is_sorted)
    kind = "Sort" if is_sorted else "Hash"
    source = _sorted(node.source, node) if is_sorted else node.source
    work = Work(len(node.keys), len(node.calls), types=(*node.schema.types[: len(node.group)], *found.types))
    local = Phase(source, node.source.schema, f"Local{kind}Aggregate", node.terms(found.partial), work=work)
    below: PhysicalNode = Exchange(local, node.group)
    below = _sorted(below, node) if is_sorted else below
    return _merged(below, node, f"{kind}Aggregate", found.final)


def _has_varying_size(call: AggregateCall) -> bool:
    """Return whether what a call has seen takes a varying number of bytes, so that rows are sorted by their keys."""
    if call.function in _SORTED:
        return True
    kind = call.type
    return call.function in ("MIN", "MAX") and not (isinstance(kind, AtomicType) and kind.root not in _VARYING)


def _merged(below: PhysicalNode, node: _Grouping, title: str, calls: Sequence[str] | None = None) -> PhysicalNode:
    """The last phase, which merges the results of another one if it has calls of its own."""
    texts = calls
    if texts is None:
        texts = call_texts(node.calls, node.results, node.source.schema.names, retracts=False)
    terms = (("isMerge", str(calls is not None).lower()), *node.terms(texts))
    return Phase(
        below,
        node.schema,
        title,
        terms,
        distributed=tuple(at for at, index in enumerate(node.group) if index in node.keys),
        work=Work(len(node.keys), len(node.calls)),
    )


def _alone(node: _Grouping, *, is_sorted: bool) -> PhysicalNode:
    """An aggregate without partial results."""
    below: PhysicalNode = Exchange(node.source, node.keys)
    return _merged(_sorted(below, node) if is_sorted else below, node, f"{'Sort' if is_sorted else 'Hash'}Aggregate")


def _sorted(source: PhysicalNode, node: _Grouping) -> PhysicalNode:
    keys = names_text([f"{source.schema.names[index]} ASC" for index in node.keys])
    work = Work(len(node.keys))
    return Phase(source, source.schema, "Sort", (("orderBy", keys),), work=work) if keys else source


def _is_sorted(node: PhysicalNode) -> bool:
    """Return whether rows come sorted by the columns by which they are distributed."""
    return _is_sorted(node.input) if isinstance(node, Calc) else node.title == "OverAggregate"


# --- distinct values -------------------------------------------------------------------------------------------------


def _of_distinct(node: _Grouping) -> PhysicalNode | None:
    arguments = {(call.operands, call.filter) for call in node.calls}
    if len(arguments) > 1 or not all(call.is_distinct for call in node.calls):
        return _expanded(node)
    return _grouped_twice(node if node.calls[0].filter is None else _of_chosen(node))


def _of_chosen(node: _Grouping) -> _Grouping:
    """Distinct calls of chosen rows, as calls of values that are NULL in the others."""
    given = node.source.schema
    chosen = node.calls[0].filter
    assert chosen is not None
    (value,) = node.calls[0].operands
    kind = given.types[value].as_nullable()
    condition = InputRef.of(given, chosen)
    only = Case((Branch(condition, InputRef.of(given, value)),), Literal(None, type=kind), type=kind)
    columns = (*(InputRef.of(given, index) for index in node.group), condition, only)
    names = (*(given.names[index] for index in (*node.group, chosen)), f"i${given.names[value]}")
    width = len(node.group)
    calls = tuple(replace(call, operands=(width + 1,), filter=None) for call in node.calls)
    return replace(node, source=projected(node.source, columns, names), group=tuple(range(width)), calls=calls)


def _grouped_twice(node: _Grouping) -> PhysicalNode | None:
    full = sorted({*node.group, *node.calls[0].operands})
    if node.source.schema.names[full[-1]].startswith("i$"):
        full.insert(-1, full[-1] - 1)  # the filter stays a key
    inner = _phases(replace(_Grouping.of(node.source, full, (), ()), in_one_phase=node.in_one_phase))
    if inner is None:
        return None
    places = {index: at for at, index in enumerate(full)}
    calls = tuple(replace(call, is_distinct=False).moved(places) for call in node.calls)
    return _phases(replace(node, source=inner, group=tuple(places[at] for at in node.group), calls=calls))


def _expanded(node: _Grouping) -> PhysicalNode | None:
    """The groups of copies of each row, one for each set of arguments, and then their groups."""
    group, plain = set(node.group), [call for call in node.calls if not call.is_distinct]
    sets = {frozenset(group | _read(call)) for call in node.calls if call.is_distinct}
    full = tuple(sorted({index for each in sets for index in each}))
    numbers = sorted({_number(full, each) for each in (*sets, *([frozenset(group)] if plain else []))})
    named = [name for name, call in zip(node.results, node.calls, strict=True) if not call.is_distinct]
    expand, copies, place = _copies(node.source, full, numbers, plain)
    inner = _Grouping.of(expand, (*full, place), [call.moved(copies) for call in plain], named)
    below = _phases(replace(inner, in_one_phase=node.in_one_phase))
    if below is None:
        return None
    marked, marks = _marked(below, node, full, numbers)
    return _outer(node, marked, {index: at for at, index in enumerate(full)}, marks)


def _read(call: AggregateCall) -> set[int]:
    return {*call.operands, *(() if call.filter is None else (call.filter,))}


def _number(full: Sequence[int], kept: frozenset[int]) -> int:
    return sum(1 << (len(full) - 1 - at) for at, index in enumerate(full) if index not in kept)


def _copies(
    source: PhysicalNode, full: Sequence[int], numbers: Sequence[int], plain: Sequence[AggregateCall]
) -> tuple[PhysicalNode, dict[int, int], int]:
    """The node that copies rows, where plain calls find their columns, and the place of the number of a copy."""
    names, width = source.schema.names, len(source.schema)
    read = sorted({index for call in plain for index in _read(call)} & set(full))
    copied = unique_names([*names, "$e", *(f"{names[index]}_0" for index in read)])
    rows = []
    for number in numbers:
        missing = {index for at, index in enumerate(full) if number >> (len(full) - 1 - at) & 1}
        columns = [f"null AS {name}" if at in missing else name for at, name in enumerate(names)]
        rows.append(
            [
                *columns,
                f"{number} AS $e",
                *(f"{names[i]} AS {n}" for i, n in zip(read, copied[width + 1 :], strict=True)),
            ]
        )
    fields = [*source.schema, Field("$e", BIGINT.not_null()), *(source.schema[index] for index in read)]
    texts = ", ".join(f"{{{names_text(row)}}}" for row in rows)
    places = {index: index for index in range(width)} | {index: width + 1 + at for at, index in enumerate(read)}
    schema, work = Schema(tuple(fields)).renamed(copied), Work(copies=len(rows))
    return Phase(source, schema, "Expand", (("projects", texts),), work=work), places, width


def _marked(
    below: PhysicalNode, node: _Grouping, full: Sequence[int], numbers: Sequence[int]
) -> tuple[PhysicalNode, dict[int, int]]:
    """The groups with a mark for each number, and the columns of these marks."""
    given, kind = below.schema, BIGINT.not_null()
    number = InputRef(len(full), type=kind)
    *others, last = (Literal(each, type=kind) for each in numbers)
    branches = tuple(Branch(_equal(number, each), each) for each in others)
    case: Scalar = Case(branches, last, type=kind) if branches else last
    filters = {
        _number(full, frozenset({*node.group, *_read(call)})): call.filter for call in node.calls if call.is_distinct
    }
    kept = [index for index in range(len(given)) if index != len(full)]
    columns: list[Scalar] = [InputRef(index, type=given.types[index]) for index in kept]
    names = [given.names[index] for index in kept]
    marks = {}
    for each in numbers:
        mark, chosen = _equal(case, Literal(each, type=kind)), filters.get(each)
        if chosen is not None:
            place = full.index(chosen)
            is_true = Call("IS TRUE", (InputRef(place, type=given.types[place]),), type=BOOLEAN.not_null())
            mark = Call("AND", (mark, is_true), type=BOOLEAN.not_null())
        marks[each] = len(columns)
        columns.append(mark)
        names.append(f"$g_{each}")
    dropped = set(full) - set(node.group) - {index for call in node.calls for index in call.operands}
    left = [at for at in range(len(columns)) if at >= len(full) or full[at] not in dropped]
    moved = {before: now for now, before in enumerate(left)}
    calc = Calc(below, tuple(columns[at] for at in left), tuple(names[at] for at in left))
    return calc, {each: moved[at] for each, at in marks.items()}


def _equal(left: Scalar, right: Scalar) -> Scalar:
    return Call("=", (left, right), type=BOOLEAN.not_null())


def _outer(node: _Grouping, marked: PhysicalNode, places: dict[int, int], marks: dict[int, int]) -> PhysicalNode | None:
    """The groups of groups: distinct calls over those that are marked for them, and the results of the other calls."""
    full = sorted(places, key=places.__getitem__)
    found = {name: at for at, name in enumerate(marked.schema.names)}
    names, calls = node.source.schema.names, []
    for name, call in zip(node.results, node.calls, strict=True):
        kept = frozenset({*node.group, *_read(call)}) if call.is_distinct else frozenset(node.group)
        mark = marks[_number(full, kept)]
        if call.is_distinct:
            operands = tuple(found[names[index]] for index in call.operands)
            calls.append(replace(call, operands=operands, filter=mark, is_distinct=False))
        else:
            calls.append(AggregateCall("MIN", (found[name],), call.type.as_nullable(), filter=mark))
    group = tuple(found[names[index]] for index in node.group)
    outer = replace(_Grouping.of(marked, group, calls, node.results), in_one_phase=node.in_one_phase)
    made = _phases(outer)
    return None if made is None else _as_types(made, node.schema.types)


def _as_types(node: PhysicalNode, types: Sequence[LogicalType]) -> PhysicalNode:
    """A node whose columns have some types; counts that are minima of counts are nullable."""
    given = InputRef.all_of(node.schema)
    columns = [ref if ref.type == kind else Cast(ref, type=kind) for ref, kind in zip(given, types, strict=True)]
    is_same = all(isinstance(each, InputRef) for each in columns)
    return node if is_same else Calc(node, tuple(columns), node.schema.names)
