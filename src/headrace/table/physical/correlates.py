"""Rows with what is found for each of them: ``UNNEST``, ``ML_PREDICT``, and replication of rows by a count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.common.configuration import Configuration
from headrace.common.logical_types import ArrayType, LogicalType, MapType, MultisetType, RowType
from headrace.graph.process_specs import PredictSpec
from headrace.graph.row_specs import ReplicateRowsSpec, UnnestSpec
from headrace.operators.join.results import JoinType
from headrace.operators.unnest import CollectionKind
from headrace.table.functions.definitions import USER_FUNCTION
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.models import MLPredict, ModelCall
from headrace.table.logical.relations import LogicalCorrelate, Relation
from headrace.table.logical.scalars import (
    BOOLEAN,
    Call,
    Cast,
    CorrelatedRef,
    InputRef,
    Literal,
    Scalar,
    input_refs,
    moved,
)
from headrace.table.logical.schema import Field, Schema
from headrace.table.logical.vector_search import VectorSearch
from headrace.table.models.provider import CAPACITY, TIMEOUT, config_of, opened_model
from headrace.table.options import PREDICT_CAPACITY, PREDICT_TIMEOUT
from headrace.table.physical.basic import ValuesScan, filtered, projected
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.keys import Keys
from headrace.table.physical.literal_text import model_call_text, record_type_text
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, with_unique_names
from headrace.table.physical.scalar_text import CalciteText, calcite_text
from headrace.table.physical.translation import GraphBuilder, compiled, compiled_all, record_type
from headrace.table.physical.vector_search import VectorSearchTableFunction, nearest_of_one, with_nearest
from headrace.table.rules.set_operations import ReplicateRows

if TYPE_CHECKING:
    from headrace.operators.asynchronous.requests import RequestSettings

_TEXT: Final = CalciteText(lambda index: f"${index}")


@dataclass(frozen=True)
class Correlate(PhysicalNode):
    """A row for each element of a collection of each row.

    Attributes:
        collection: the scalar of the collection.
        columns: the columns of an element.
        keeps_empty: whether a row without elements is kept (a left join).
        condition: the join condition over the row and the element, of a left join.
        correlation: the name by which plans that are shown refer to the row; None in others.
    """

    name: ClassVar[str] = "Correlate"
    input: PhysicalNode
    collection: Scalar
    columns: Schema
    with_ordinality: bool = False
    keeps_empty: bool = False
    condition: Scalar | None = None
    correlation: str | None = None

    @cached_property
    def schema(self) -> Schema:
        columns = [field.as_nullable() if self.keeps_empty else field for field in self.columns]
        return with_unique_names(Schema((*self.input.schema, *columns)))

    def terms(self, text: ScalarText) -> Terms:
        prefix = "" if self.correlation is None else f"{self.correlation}."
        shown = (text if not prefix else calcite_text)(
            self.collection, [f"{prefix}{name}" for name in self.input.schema.names]
        )
        is_call = isinstance(self.collection, Call) and self.collection.option(USER_FUNCTION) is not None
        function = "$UNNEST_ROWS_WITH_ORDINALITY$1" if self.with_ordinality else "$UNNEST_ROWS$1"
        call, schema = shown if is_call else f"{function}({shown})", self.schema
        yield "invocation", call
        yield "correlate", f"table({call})"
        yield "select", ",".join(schema.names)
        if self.correlation is not None:
            kind = record_type_text(schema.names, schema.types, [field.time for field in schema])
            is_whole = not self.input.schema.names
            yield "rowType", kind.replace("RecordType(", "RecordType:peek_no_expand(", 1) if is_whole else kind
        yield "joinType", "LEFT" if self.keeps_empty else "INNER"
        if self.correlation is not None and self.condition is not None:
            yield "condition", _TEXT(self.condition)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        spec = UnnestSpec(
            compiled(self.collection, self.input.schema, builder),
            collection_kind(self.collection.type),
            record_type(self.schema),
            self.with_ordinality,
            self.keeps_empty,
            None if self.condition is None else compiled(self.condition, self.schema, builder),
        )
        return builder.add(spec, self.name, *inputs)


def collection_kind(kind: LogicalType) -> CollectionKind:
    """The kind of collection that values of a type are.

    Raises:
        PlanningError: when they are not collections.
    """
    if isinstance(kind, ArrayType):
        return CollectionKind.ROWS if isinstance(kind.element, RowType) else CollectionKind.ARRAY
    if isinstance(kind, MultisetType):
        return CollectionKind.MULTISET
    if isinstance(kind, MapType):
        return CollectionKind.MAP
    raise PlanningError(f"UNNEST takes an array, a map or a multiset, and not {kind}")


NamedCorrelate = Callable[[Correlate, str], PhysicalNode]


@conversion_rule(LogicalCorrelate)
def _correlate(correlate: LogicalCorrelate, context: ConversionContext) -> PhysicalNode:
    return converted_correlate(correlate, context)


def converted_correlate(
    correlate: LogicalCorrelate, context: ConversionContext, named: NamedCorrelate | None = None
) -> PhysicalNode:
    """The plan of a lateral join.

    Args:
        correlate: the join.
        context: the context of the conversion.
        named: names the columns of a node that unnests a collection, given the name of the correlation, where the plan
            is shown; then conditions on unnested rows are part of the node.

    Raises:
        PlanningError: when no operator can compute it.
    """
    return _joined(converted(correlate.left, context), correlate.right, correlate, context, named)


def _joined(
    left: PhysicalNode,
    right: Relation,
    correlate: LogicalCorrelate,
    context: ConversionContext,
    named: NamedCorrelate | None,
) -> PhysicalNode:
    """The rows of the right relation for each row of the left one, after the columns of the left one."""
    width, keeps_empty = len(left.schema), correlate.kind is JoinType.LEFT
    if isinstance(right, logical.Unnest | logical.TableFunctionScan | VectorSearch):
        return _called(left, right, correlate, context, named)
    if isinstance(right, logical.Project):
        below = _joined(left, right.input, correlate, context, named)
        columns = InputRef.all_of(below.schema)[:width]
        made = [_of_both(each, width, correlate.correlation) for each in right.expressions]
        return projected(below, [*columns, *made], [*left.schema.names, *right.names])
    if isinstance(right, logical.Filter) and named is not None and isinstance(right.input, logical.Unnest):
        unfiltered = _joined(left, right.input, correlate, context, None)
        if isinstance(unfiltered, Correlate):
            return replace(unfiltered, condition=right.condition, correlation=correlate.correlation)
    if isinstance(right, logical.Filter):
        below = _joined(left, right.input, correlate, context, named)
        condition = _of_both(right.condition, width, correlate.correlation)
        if not keeps_empty:
            return filtered(below, condition)
        if isinstance(below, Correlate | VectorSearchTableFunction) and below.condition is None:
            return replace(below, condition=condition)
    raise PlanningError(f"a lateral join with {type(right).__name__} cannot be executed yet")


def _called(
    left: PhysicalNode,
    right: logical.Unnest | logical.TableFunctionScan | VectorSearch,
    correlate: LogicalCorrelate,
    context: ConversionContext,
    named: NamedCorrelate | None,
) -> PhysicalNode:
    """The rows that a function gives for each row of the left relation."""
    keeps_empty = correlate.kind is JoinType.LEFT
    if isinstance(right, VectorSearch):
        return with_nearest(left, right, _of_row(right.vector, correlate.correlation), correlate.kind, context)
    if isinstance(right, logical.TableFunctionScan):
        call = _of_row(_call_of(right), correlate.correlation)
        return Correlate(left, call, right.columns, keeps_empty=keeps_empty)
    if len(right.operands) != 1:
        raise PlanningError("UNNEST of several collections cannot be executed yet")
    collection = _of_row(right.operands[0], correlate.correlation)
    node = Correlate(left, collection, right.columns, right.with_ordinality, keeps_empty)
    return node if named is None else named(node, correlate.correlation)


def _of_row(scalar: Scalar, correlation: str) -> Scalar:
    """A correlated scalar, rewritten over the columns of the outer row."""

    def column(node: Scalar) -> Scalar:
        if isinstance(node, CorrelatedRef) and node.correlation == correlation:
            return InputRef(node.index, type=node.type, time=node.time)
        return node

    return scalar.transform(column)


def _of_both(scalar: Scalar, width: int, correlation: str) -> Scalar:
    """A scalar over the columns of the right relation, as one over those of both."""
    return _of_row(moved(scalar, {index: index + width for index in input_refs(scalar)}), correlation)


def _call_of(scan: logical.TableFunctionScan) -> Scalar:
    """A table function's call, as a scalar whose value is an array of rows."""
    rows = ArrayType(RowType(scan.columns.names, scan.columns.types))
    return Call(scan.function, scan.operands, scan.options, type=rows)


@conversion_rule(logical.Unnest)
def _unnest(unnest: logical.Unnest, _: ConversionContext) -> PhysicalNode:
    """The unnesting of a constant collection, over a single row."""
    if len(unnest.operands) != 1:
        raise PlanningError("UNNEST of several collections cannot be executed yet")
    return _of_one_row(unnest.operands[0], unnest.columns, with_ordinality=unnest.with_ordinality)


@conversion_rule(logical.TableFunctionScan)
def _table_function(scan: logical.TableFunctionScan, _: ConversionContext) -> PhysicalNode:
    """The rows of a table function of constants, over a single row."""
    return _of_one_row(_call_of(scan), scan.columns)


@conversion_rule(VectorSearch)
def _search(search: VectorSearch, context: ConversionContext) -> PhysicalNode:
    return nearest_of_one(search, context)


def _of_one_row(collection: Scalar, columns: Schema, *, with_ordinality: bool = False) -> PhysicalNode:
    row = ValuesScan(((Literal(True, type=BOOLEAN),),), Schema((Field("$one", BOOLEAN),)))
    node = Correlate(row, collection, columns, with_ordinality)
    return projected(node, InputRef.all_of(node.schema)[1:], columns.names)


@dataclass(frozen=True)
class Replicate(PhysicalNode):
    """Each row as many times as its first column requires."""

    name: ClassVar[str] = "Correlate"
    input: PhysicalNode

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        return with_unique_names(Schema((*given, *given.fields[1:])))

    def terms(self, text: ScalarText) -> Terms:
        given, schema = self.input.schema, self.schema
        call = f"$REPLICATE_ROWS$1({', '.join(f'${index}' for index in range(len(given)))})"
        yield "invocation", call
        yield "correlate", f"table($REPLICATE_ROWS$1({','.join(given.names)}))"
        yield "select", ",".join(schema.names)
        yield "rowType", record_type_text(schema.names, schema.types, [None] * len(schema))
        yield "joinType", "INNER"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(ReplicateRowsSpec(record_type(self.schema)), "ReplicateRows", *inputs)


@conversion_rule(ReplicateRows)
def _replicate(relation: ReplicateRows, context: ConversionContext) -> PhysicalNode:
    node = Replicate(converted(relation.input, context))
    return projected(node, InputRef.all_of(node.schema)[len(relation.schema) + 1 :], relation.schema.names)


@dataclass(frozen=True)
class MLPredictTableFunction(PhysicalNode):
    """Calls a model with columns of each row."""

    name: ClassVar[str] = "MLPredictTableFunction"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    call: ModelCall

    @cached_property
    def schema(self) -> Schema:
        return self.call.results(self.input.schema)

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def terms(self, text: ScalarText) -> Terms:
        names, types = self.schema.names, self.schema.types
        yield "invocation", model_call_text(self.call, self.input.schema.names)
        yield "rowType", record_type_text(names, types, [field.time for field in self.schema])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        from headrace.operators.prediction import Features

        model = opened_model(self.call)
        refs = InputRef.all_of(self.input.schema)
        pairs = zip(self.call.features, self.call.inputs.types, strict=True)
        columns: list[Scalar] = [Cast(refs[index], type=kind.as_nullable()) for index, kind in pairs]
        features = Features(self.call.inputs.names, compiled_all(columns, self.input.schema, builder.settings))
        settings = self._requests(builder.settings) if model.is_async else None
        spec = PredictSpec(features, model, record_type(self.schema), settings)
        return builder.add(spec, f"{self.name}: {self.call.path[-1]}", *inputs)

    def _requests(self, settings: Configuration) -> RequestSettings:
        from headrace.operators.asynchronous.requests import RequestSettings
        from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY

        config = config_of(self.call)
        timeout, capacity = config.get(TIMEOUT), config.get(CAPACITY)
        return RequestSettings(
            settings.get(PREDICT_TIMEOUT) if timeout is None else timeout,
            settings.get(PREDICT_CAPACITY) if capacity is None else capacity,
            False,
            NO_RETRY_STRATEGY,
        )


@conversion_rule(MLPredict)
def _predict(predict: MLPredict, context: ConversionContext) -> PhysicalNode:
    return MLPredictTableFunction(converted(predict.input, context), predict.call)
