"""Logical relations as text: the abstract syntax tree of ``EXPLAIN``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.common.masking import masked
from headrace.table.functions.types import INT
from headrace.table.logical import relations as logical
from headrace.table.logical.match import LogicalMatch
from headrace.table.logical.models import MLPredict
from headrace.table.logical.relations import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFromChangelog,
    LogicalJoin,
    LogicalSort,
    LogicalToChangelog,
    LogicalWatermarkAssigner,
    LogicalWindowTableFunction,
    Relation,
)
from headrace.table.logical.scalars import (
    AggregateCall,
    Cast,
    CorrelatedRef,
    FieldAccess,
    InputRef,
    Literal,
    Scalar,
    SortKey,
    substituted,
)
from headrace.table.logical.schema import Field, Schema, unique_names
from headrace.table.logical.vector_search import VectorSearch
from headrace.table.physical.call_texts import function_text
from headrace.table.physical.literal_text import config_text, literal_text, model_call_text, record_type_text
from headrace.table.physical.match import after_text, definition_texts, pattern_text
from headrace.table.physical.node import tree_text
from headrace.table.physical.scalar_text import CalciteText, JoinedText
from headrace.table.rules.searches import simplified
from headrace.table.rules.simplify import constant

Terms = Iterator[tuple[str, str]]


def logical_text(roots: Sequence[Relation]) -> str:
    """The text of logical trees."""
    return "\n\n".join(tree_text(root, _line, _inputs) for root in roots)


@dataclass(frozen=True)
class _Uncollect(Relation):
    """The elements of collections that a projection below computes."""

    input: Relation
    columns: Schema
    with_ordinality: bool

    @property
    def schema(self) -> Schema:
        return self.columns

    @staticmethod
    def of(unnest: logical.Unnest) -> Relation:
        """A node that plans show as several."""
        names = [
            each.name if isinstance(each, CorrelatedRef | FieldAccess) else f"EXPR${at}"
            for at, each in enumerate(unnest.operands)
        ]
        row = logical.Values(((_ZERO,),), Schema((Field("ZERO", _ZERO.type),)))
        collections = logical.Project(row, unnest.operands, tuple(names))
        node = _Uncollect(collections, unnest.schema, unnest.with_ordinality)
        return logical.Project(node, InputRef.all_of(node.schema), node.schema.names)


_ZERO: Final = Literal(0, type=INT.not_null())


def _inputs(relation: Relation) -> Sequence[Relation]:
    """The relations below one that plans show."""
    return [_Uncollect.of(each) if isinstance(each, logical.Unnest) else each for each in _all_inputs(relation)]


def _all_inputs(relation: Relation) -> Sequence[Relation]:
    """The relations below one, without the constant that ``COUNT(*)`` reads."""
    if isinstance(relation, LogicalAggregate) and _is_constant(relation.input) and not _reads(relation):
        return relation.input.inputs
    if isinstance(relation, logical.Sink):
        return (_merged(relation.input) if relation.is_projected else relation.input,)
    if isinstance(relation, logical.SetOperation) and len(relation.arms) > 2:  # Calcite's have two inputs
        return (replace(relation, arms=relation.arms[:-1]), relation.arms[-1])
    return relation.inputs


def _is_constant(relation: Relation) -> bool:
    if not isinstance(relation, logical.Project):
        return False
    (*_, last) = relation.expressions
    return relation.names == ("$f0",) and isinstance(last, Literal) and last.value == 0


def _reads(aggregate: LogicalAggregate) -> bool:
    return bool(aggregate.group) or any(call.columns for call in aggregate.calls)


def _merged(relation: Relation) -> Relation:
    """A projection to the types of a table, merged with the one of the query."""
    if not isinstance(relation, logical.Project) or not isinstance(relation.input, logical.Project):
        return relation
    below = relation.input
    if below.is_of_table or not all(isinstance(each, InputRef | Cast | Literal) for each in relation.expressions):
        return relation
    expressions = tuple(substituted(each, below.expressions) for each in relation.expressions)
    return replace(relation, input=below.input, expressions=expressions, correlation=below.correlation)


def _line(relation: Relation) -> str:
    name, terms = _TERMS[type(relation)]
    if isinstance(relation, logical.SetOperation):
        name = f"Logical{relation.operator.value}"
    shown = ", ".join(f"{key}=[{value}]" for key, value in terms(relation))
    return f"{name}({shown})" if shown else name


def _indented(relation: Relation, depth: int = 0) -> str:
    """A tree without lines between its nodes, as subqueries are written."""
    below = "".join(f"\n{_indented(child, depth + 1)}" for child in _inputs(relation))
    return f"{'  ' * depth}{_line(relation)}{below}"


_text = CalciteText(lambda index: f"${index}", _indented)
_joined_text = JoinedText(lambda index: f"${index}", _indented)


def _table(path: Sequence[str]) -> str:
    return f"[{', '.join(path)}]"


def _scan(scan: logical.Scan) -> Terms:
    parts = [_table(scan.path)]
    if scan.metadata:
        parts = [_table([*scan.path, f"metadata=[{', '.join(read.key for read in scan.metadata)}]"])]
    yield "table", ", ".join(parts)
    if scan.hints:
        yield "hints", f"[{', '.join(_hint(hint, '[]') for hint in scan.hints)}]"


def _values(values: logical.Values) -> Terms:
    rows = (f"{{ {', '.join(map(literal_text, row))} }}" for row in values.rows)
    yield "tuples", f"[{', '.join(rows)}]"


def _watermark(assigner: LogicalWatermarkAssigner) -> Terms:
    yield "rowtime", assigner.input.schema.names[assigner.rowtime]
    yield "watermark", _text(assigner.watermark)


def _project(project: logical.Project) -> Terms:
    if project.correlation is not None:
        yield "variablesSet", f"[{project.correlation}]"
    shown = (_text(simplified(_with_known_casts(each))) for each in project.expressions)
    yield from zip(unique_names(project.names), shown, strict=True)


def _with_known_casts(scalar: Scalar) -> Scalar:
    """A scalar in which casts of literals are literals."""

    def known(node: Scalar) -> Scalar:
        if not isinstance(node, Cast) or node.is_try or node.is_implicit or not isinstance(node.operand, Literal):
            return node
        is_shown = isinstance(node.type, AtomicType) and node.type.root in _KNOWN_CASTS
        return constant(node) if is_shown and node.operand.value is not None else node

    return scalar.transform(known)


_KNOWN_CASTS: Final = (
    *(TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.BOOLEAN),
    *(TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP),
)


def _filter(relation: logical.Filter) -> Terms:
    is_having = isinstance(relation.input, LogicalAggregate)
    yield "condition", _text(simplified(relation.condition) if is_having else relation.condition)
    if relation.correlation is not None:
        yield "variablesSet", f"[{relation.correlation}]"


def _aggregate(aggregate: LogicalAggregate) -> Terms:
    yield "group", _braces(aggregate.group)
    if not aggregate.is_simple:
        yield "groups", f"[{', '.join(map(_braces, aggregate.grouping_sets))}]"
    names = unique_names(aggregate.names)[len(aggregate.group) :]
    if any(_UNNAMED.fullmatch(name) for name in names):
        names = tuple(f"agg#{at}" if _UNNAMED.fullmatch(name) else name for at, name in enumerate(names))
    yield from ((name, _aggregate_call(call)) for name, call in zip(names, aggregate.calls, strict=True))
    kept = [hint.options for hint in aggregate.hints if hint.name == "STATE_TTL"]
    texts = [", ".join(f"{key}={value}" for key, value in options) for options in kept]
    if texts:
        yield "stateTtlHints", f"[{''.join(f'[STATE_TTL options:{{{text}}}]' for text in texts)}]"


_UNNAMED: Final = re.compile(r"\$f\d+")
"""Generated names of aggregates within expressions."""


def _braces(indices: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, indices))}}}"


def _aggregate_call(call: AggregateCall) -> str:
    operands = ", ".join(f"${index}" for index in call.operands)
    if call.function == "APPROX_COUNT_DISTINCT":
        text = f"COUNT(APPROXIMATE DISTINCT {operands})"
    else:
        name = function_text(replace(call, type=call.type.as_nullable()))
        text = f"{name}({'DISTINCT ' if call.is_distinct else ''}{operands})"
    if call.order_by:
        text += f" WITHIN GROUP ([{', '.join(_sort_key(key) for key in call.order_by)}])"
    return text if call.filter is None else f"{text} FILTER ${call.filter}"


def _direction(key: SortKey) -> str:
    """The direction of a key; Calcite leaves out where NULLs are if they count as the largest values."""
    direction = "DESC" if key.descending else "ASC"
    if key.nulls_first == key.descending:
        return direction
    return f"{direction}-nulls-{'first' if key.nulls_first else 'last'}"


def _sort_key(key: SortKey) -> str:
    return f"{key.index} {_direction(key)}"


def _sort(sort: LogicalSort) -> Terms:
    yield from ((f"sort{number}", f"${key.index}") for number, key in enumerate(sort.keys))
    yield from ((f"dir{number}", _direction(key)) for number, key in enumerate(sort.keys))
    if sort.offset:
        yield "offset", str(sort.offset)
    if sort.limit is not None:
        yield "fetch", str(sort.limit)


def _window(window: LogicalWindowTableFunction) -> Terms:
    schema = window.input.schema
    source = "TABLE(#0)"
    if window.partition_by:
        source += f" PARTITION BY({', '.join(f'${index}' for index in window.partition_by)})"
    arguments = [source, f"DESCRIPTOR(_UTF-16LE'{schema.names[window.time_column]}')"]
    arguments += map(_text, window.intervals)
    yield "invocation", f"{window.kind.value}({', '.join(arguments)})"
    yield "rowType", _row_type(window)


def _row_type(relation: Relation) -> str:
    schema = relation.schema
    return record_type_text(schema.names, schema.types, [field.time for field in schema])


def _table_function(scan: logical.TableFunctionScan) -> Terms:
    yield "invocation", f"{scan.function}({', '.join(map(_text, scan.operands))})"
    yield "rowType", _row_type(scan)


def _uncollect(node: _Uncollect) -> Terms:
    if node.with_ordinality:
        yield "withOrdinality", "true"


def _join(join: LogicalJoin) -> Terms:
    yield "condition", _joined_text(simplified(join.condition))
    yield "joinType", join.kind.value
    by_state = [hint for hint in join.hints if hint.name == "STATE_TTL"]
    others = [hint for hint in join.hints if hint.name != "STATE_TTL"]
    for name, hints in (("stateTtlHints", by_state), ("joinHints", others)):
        if hints:
            yield name, f"[{''.join(_hint(hint, '[0]') for hint in hints)}]"


def _hint(hint: logical.Hint, path: str) -> str:
    pairs = ", ".join(f"{key}={masked(key, value)}" for key, value in sorted(hint.options, key=_place_in_map))
    given = f"{{{pairs}}}" if hint.options else f"[{', '.join(hint.items)}]"
    return f"[{hint.name} inheritPath:{path} options:{given}]"


def _place_in_map(option: tuple[str, str]) -> int:
    """The place of a hint's option among the others: that of its key in a ``HashMap`` of Java."""
    code = 0
    for letter in option[0]:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


def _to_changelog(node: LogicalToChangelog) -> Terms:
    yield "invocation", f"TO_CHANGELOG(TABLE(#0), {_defaults(node.kind_column, 4)})"
    yield "rowType", _row_type(node)


def _from_changelog(node: LogicalFromChangelog) -> Terms:
    yield "invocation", f"FROM_CHANGELOG(TABLE(#0), {_defaults(node.input.schema.names[node.kind_column], 4)})"
    yield "rowType", _row_type(node)


def _predict(node: MLPredict) -> Terms:
    yield "invocation", model_call_text(node.call, node.input.schema.names)
    yield "rowType", _row_type(node)


def _search(node: VectorSearch) -> Terms:
    column = f"DESCRIPTOR(_UTF-16LE'{node.input.schema.names[node.vectors]}')"
    config = [config_text(node.config)] if node.config else []
    arguments = ", ".join(["TABLE(#0)", column, _text(node.vector), str(node.count), *config])
    yield "invocation", f"VECTOR_SEARCH({arguments})"
    yield "rowType", _row_type(node)


def _defaults(column: str, count: int) -> str:
    first = "DEFAULT()" if column == "op" else f"DESCRIPTOR(_UTF-16LE'{column}')"
    return ", ".join([first, *["DEFAULT()"] * (count - 1)])


def _sample(sample: logical.Sample) -> Terms:
    yield "mode", "bernoulli" if sample.is_bernoulli else "system"
    yield "rate", f"{float(sample.percentage) / 100}"
    yield "repeatableSeed", "-" if sample.seed is None else str(sample.seed)


def _correlate(correlate: LogicalCorrelate) -> Terms:
    yield "correlation", correlate.correlation
    yield "joinType", correlate.kind.value
    yield "requiredColumns", _braces(correlate.required)
    if correlate.hints:
        yield "joinHints", f"[{''.join(_hint(hint, '[0]') for hint in correlate.hints)}]"


def _match(match: LogicalMatch) -> Terms:
    clauses = match.clauses
    yield "partition", f"[{', '.join(map(str, clauses.partition_by))}]"
    yield "order", f"[{', '.join(map(_sort_key, clauses.order_by))}]"
    yield "outputFields", f"[{', '.join(match.schema.names)}]"
    yield "allRows", str(clauses.all_rows).lower()
    yield "after", after_text(clauses, is_logical=True)
    yield "pattern", pattern_text(clauses.pattern)
    yield "isStrictStarts", str(clauses.is_anchored[0]).lower()
    yield "isStrictEnds", str(clauses.is_anchored[1]).lower()
    if clauses.within is not None:
        yield "interval", _text(clauses.within)
    subsets = (f"[{', '.join(names)}]" for _, names in clauses.subsets)
    yield "subsets", f"[{', '.join(subsets)}]"
    yield "patternDefinitions", f"[{', '.join(definition_texts(clauses).values())}]"
    yield "inputFields", f"[{', '.join(match.input.schema.names)}]"


def _sink(sink: logical.Sink) -> Terms:
    yield "table", ".".join(sink.path)
    if sink.targets:
        yield "targetColumns", ",".join(f"[{index}]" for index in sink.targets)
    yield "fields", ", ".join(unique_names(sink.input.schema.names))


def _all(operation: logical.SetOperation) -> Terms:
    yield "all", str(operation.is_all).lower()


_TERMS: Final[dict[type[Relation], tuple[str, Callable[[Any], Terms]]]] = {
    logical.Scan: ("LogicalTableScan", _scan),
    logical.Values: ("LogicalValues", _values),
    LogicalWatermarkAssigner: ("LogicalWatermarkAssigner", _watermark),
    logical.Project: ("LogicalProject", _project),
    logical.Filter: ("LogicalFilter", _filter),
    LogicalAggregate: ("LogicalAggregate", _aggregate),
    LogicalSort: ("LogicalSort", _sort),
    LogicalWindowTableFunction: ("LogicalTableFunctionScan", _window),
    logical.TableFunctionScan: ("LogicalTableFunctionScan", _table_function),
    _Uncollect: ("Uncollect", _uncollect),
    logical.Snapshot: ("LogicalSnapshot", lambda snapshot: iter([("period", _text(snapshot.period))])),
    LogicalJoin: ("LogicalJoin", _join),
    LogicalCorrelate: ("LogicalCorrelate", _correlate),
    logical.SetOperation: ("LogicalUnion", _all),
    LogicalToChangelog: ("LogicalTableFunctionScan", _to_changelog),
    LogicalFromChangelog: ("LogicalTableFunctionScan", _from_changelog),
    MLPredict: ("LogicalTableFunctionScan", _predict),
    VectorSearch: ("LogicalTableFunctionScan", _search),
    logical.Sample: ("Sample", _sample),
    LogicalMatch: ("LogicalMatch", _match),
    logical.Sink: ("LogicalSink", _sink),
}
