"""Joins ``FOR SYSTEM_TIME AS OF``: with the version of a row that is valid at a time, and with rows as they are now.

The latter are lookup joins: the rows of a table are looked up by a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from headrace.common.config_options import boolean, choice, duration, integer
from headrace.common.configuration import Configuration
from headrace.common.logical_types import AtomicType, bigint
from headrace.graph.changelog_specs import LookupMaterializeSpec
from headrace.graph.join_specs import TemporalJoinSpec
from headrace.graph.process_specs import LookupJoinSpec, RequestedLookupSpec, TableLookupSpec
from headrace.operators.join.results import JoinType
from headrace.operators.unnest import ExpandedRows
from headrace.table.connectors.table_lookup import TableLookup
from headrace.table.logical.errors import PlanningError, TableDefinitionError
from headrace.table.logical.join_keys import condition_of, is_equality
from headrace.table.logical.relations import (
    Filter,
    Hint,
    LogicalWatermarkAssigner,
    Project,
    Relation,
    Scan,
    joined_schema,
)
from headrace.table.logical.scalars import BOOLEAN, Call, InputRef, Literal, Scalar, all_of, conjuncts
from headrace.table.logical.schema import Field, Schema, unique_names
from headrace.table.options import ASYNC_CAPACITY, ASYNC_KEY_ORDERED, ASYNC_MODE, ASYNC_TIMEOUT
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, filtered, projected
from headrace.table.physical.changelog_rules import ChangelogRule, UpdateKind
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted, table_source
from headrace.table.physical.joins import JOIN_NAMES, AnyJoin, JoinKeys, keys_in_subtask, smallest_key
from headrace.table.physical.keys import NO_KEYS, Keys
from headrace.table.physical.literal_text import literal_text
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key, compiled, compiled_all, record_type
from headrace.table.rules.conditions import call
from headrace.table.rules.temporal import LogicalLookupJoin, LogicalTemporalJoin

if TYPE_CHECKING:
    from headrace.operators.asynchronous.requests import RequestSettings

T = TypeVar("T")

_PAUSE: Final = 1000
"""The milliseconds between a request that has failed and the next attempt."""

_RETRY: Final = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")


@dataclass(frozen=True)
class LookupHint:
    """The options of a hint ``LOOKUP``, or those of the session.

    Attributes:
        is_async: whether many requests are made at a time; None if that is left to the table.
        mode: in which order rows may leave; they leave in theirs.
        is_key_ordered: whether rows of a key have to leave in order.
        capacity: how many requests are made at a time.
        timeout: how long one may take, in milliseconds.
        retry: the pause before a key that was not found is looked up again, and the number of attempts.
        shuffles: whether rows are distributed by the key.
    """

    is_async: bool | None
    mode: str
    is_key_ordered: bool
    capacity: int
    timeout: int
    retry: tuple[int, int] | None
    shuffles: bool

    @staticmethod
    def of(hints: Sequence[Hint], settings: Configuration) -> LookupHint:
        """The first of several hints for a table.

        Raises:
            PlanningError: when a value is wrong, or only some options of retries are set.
        """
        options = dict(hints[0].options) if hints else {}
        given = [key for key in _RETRY if key in options]
        if given and len(given) < len(_RETRY):
            missing = next(key for key in _RETRY if key not in options)
            raise PlanningError(f"the hint LOOKUP needs '{missing}', too, if it has '{given[0]}'")
        _read(options, "retry-predicate", choice("lookup_miss"))
        _read(options, "retry-strategy", choice("fixed_delay"))
        pause, attempts = _read(options, "fixed-delay", duration), _read(options, "max-attempts", integer(1, 1 << 31))
        return LookupHint(
            _read(options, "async", boolean),
            _read(options, "output-mode", ASYNC_MODE.parse) or settings.get(ASYNC_MODE),
            settings.get(ASYNC_KEY_ORDERED),
            _read(options, "capacity", ASYNC_CAPACITY.parse) or settings.get(ASYNC_CAPACITY),
            _read(options, "timeout", ASYNC_TIMEOUT.parse) or settings.get(ASYNC_TIMEOUT),
            None if pause is None or attempts is None else (pause, attempts),
            bool(_read(options, "shuffle", boolean)),
        )

    def terms(self, lookup: TableLookup, *, has_changes: bool, materializes: bool) -> Terms:
        """The terms of plans.

        Args:
            lookup: how the table is looked up.
            has_changes: whether rows may be changes, which have to leave in order.
            materializes: whether what is found is kept, of which Flink's plans say that requests are not asynchronous.
        """
        if self._makes_many(lookup) and not materializes:
            mode = "ORDERED" if has_changes else self.mode.removeprefix("ALLOW_")
            ordered = str(self.is_key_ordered).lower()
            yield "async", f"{mode}, KEY_ORDERED: {ordered}, {self.timeout}ms, {self.capacity}"
        if self.shuffles:
            yield "shuffle", "true"
        if self.retry is not None:
            yield "retry", f"lookup_miss, FIXED_DELAY, {self.retry[0]}ms, {self.retry[1]}"

    def _makes_many(self, lookup: TableLookup) -> bool:
        from headrace.operators.lookup.readers import TableReader

        if isinstance(lookup.reader, TableReader):
            return False
        return lookup.is_async if self.is_async is None else self.is_async

    def requests(self, lookup: TableLookup) -> RequestSettings:
        """Return how keys are requested."""
        from headrace.operators.asynchronous.requests import RequestSettings
        from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY, AsyncRetryStrategy

        timeout, capacity = self.timeout, self.capacity if self._makes_many(lookup) else 1
        pause, attempts = self.retry or (_PAUSE, lookup.max_retries)
        if not attempts:
            return RequestSettings(timeout, capacity, False, NO_RETRY_STRATEGY)
        strategy = AsyncRetryStrategy.fixed_delay(
            attempts,
            max(1, pause),
            _is_missing if self.retry is not None else None,
            _is_failure if lookup.max_retries else None,
        )
        return RequestSettings(timeout, capacity, False, strategy)


def _is_missing(found: Any) -> bool:
    return not found


def _is_failure(_: Exception) -> bool:
    return True


def _read(options: dict[str, str], key: str, parse: Callable[[str], T]) -> T | None:
    if key not in options:
        return None
    try:
        return parse(options[key])
    except ValueError as error:
        raise PlanningError(f"the hint LOOKUP has '{key}' = '{options[key]}', which is not {error}") from None


@dataclass(frozen=True)
class LookupJoin(PhysicalNode):
    """A join of each row with rows of a table that are looked up.

    Attributes:
        table: the table, or columns computed from its rows; not an input, since it is not scanned.
        kind: inner, or left.
        keys: the values that are looked up, over the columns of the input, by column of the table.
        condition: the other conditions over the columns of both.
        hint: the hint ``LOOKUP``.
        materializes: whether it keeps what it found of each row, so that it takes back the same.
    """

    name: ClassVar[str] = "LookupJoin"
    input: PhysicalNode
    table: LookedUp
    kind: JoinType
    keys: tuple[tuple[int, Scalar], ...]
    condition: Scalar | None
    hint: LookupHint
    materializes: bool = False

    @cached_property
    def schema(self) -> Schema:
        both = joined_schema(self.input.schema, self.table.schema, self.kind)
        return both.renamed(unique_names(both.names))

    @property
    def upsert_keys(self) -> Keys:
        key = self.table.scan.scan.primary_key
        return self.input.upsert_keys if key and {*key} <= {field for field, _ in self.keys} else NO_KEYS

    def terms(self, text: ScalarText) -> Terms:
        given, names = self.input.schema.names, self.schema.names
        columns = self.table.scan.schema.names
        yield "table", ".".join(self.table.scan.scan.path)
        yield "joinType", JOIN_NAMES[self.kind]
        values = (literal_text(each) if isinstance(each, Literal) else text(each, given) for _, each in self.keys)
        pairs = [f"{columns[key]}={value}" for (key, _), value in zip(self.keys, values, strict=True)]
        yield "lookup", names_text(pairs)
        if self.table.condition is not None:
            yield "where", text(self.table.condition, columns)
        if self.condition is not None:
            yield "joinCondition", text(self.condition, names)
        yield "select", names_text([*given, *self.table.shown(text)] if self.table.is_computed else names)
        if self.materializes:
            yield "upsertMaterialize", "true"
        yield from self.hint.terms(
            self._lookup, has_changes=not self.mode.is_insert_only, materializes=self.materializes
        )
        if keys := sorted(self.input.upsert_keys, key=sorted):
            yield "upsertKey", names_text([str(sorted(key)) for key in keys])

    @cached_property
    def _lookup(self) -> TableLookup:
        names = self.table.scan.schema.names
        return self.table.scan.source.create_lookup([names[field] for field, _ in self.keys])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given, names = self.input.schema, self.table.scan.schema.names
        used = {field: value for field, value in self.keys if names[field] in self._lookup.keys}
        definition = self._definition(builder, used)
        edges = inputs[0]
        if isinstance(self.input, Exchange):
            edges = by_key(edges, given, self.input.keys or ())
        found = builder.add(self._spec(definition, builder), self.name, edges)
        return self._kept(builder, found) if self.materializes else found

    def _kept(self, builder: GraphBuilder, edges: Edges) -> Edges:
        """The joined rows, of which those that take others back are these."""
        given, keys = self.input.schema, keys_in_subtask(self.input)
        spec = LookupMaterializeSpec(
            output_type=record_type(self.schema),
            width=len(given),
            keeps_empty=self.kind is JoinType.LEFT,
            ttl=builder.state_ttl,
        )
        key = smallest_key(keys) if keys else range(len(given))
        return builder.add(spec, "LookupMaterialize", by_key(edges, given, key))

    def _definition(self, builder: GraphBuilder, used: dict[int, Scalar]) -> Any:
        from headrace.operators.lookup.lookup_joins import LookupJoinDefinition

        table, rows = self.table, self.table.scan.schema
        others = [call("=", self._column(field), value) for field, value in self.keys if field not in used]
        conditions = [*others, *([] if self.condition is None else [self.condition])]
        condition = compiled(all_of(conditions), self.schema, builder) if conditions else None
        return LookupJoinDefinition(
            record_type(rows),
            tuple(compiled_all(list(used.values()), self.input.schema, builder.settings)),
            tuple(used),
            None if table.condition is None else compiled(table.condition, rows, builder),
            tuple(compiled_all(table.expressions, rows, builder.settings)),
            self._rows(condition),
        )

    def _rows(self, condition: Any) -> ExpandedRows:
        """The joined rows, from rows and what was found for them; with numbers if those are kept."""
        if not self.materializes:
            return ExpandedRows(record_type(self.schema), condition, self.kind is JoinType.LEFT)
        numbered = Schema((*self.schema, Field("$number", bigint())))
        return ExpandedRows(record_type(numbered), condition, keeps_empty=True, numbers=True)

    def _column(self, field: int) -> Scalar:
        """A column of the table among those of the result."""
        place = next(
            place
            for place, each in enumerate(self.table.expressions)
            if isinstance(each, InputRef) and each.index == field
        )
        return self.schema_column(len(self.input.schema) + place)

    def schema_column(self, index: int) -> Scalar:
        """A column of the result."""
        return InputRef.all_of(self.schema)[index]

    def _spec(self, definition: Any, builder: GraphBuilder) -> LookupJoinSpec:
        from headrace.operators.lookup.lookup_operator import LookupRequests
        from headrace.operators.lookup.readers import ReloadTrigger, TableReader

        lookup = self._lookup
        if isinstance(lookup.reader, TableReader):
            return TableLookupSpec(definition, lookup.reader, lookup.reload or ReloadTrigger())
        requests = self.hint.requests(lookup)
        return RequestedLookupSpec(definition, lookup.reader, LookupRequests(requests, lookup.cache))


@dataclass(frozen=True)
class LookedUp:
    """A table that is looked up, and the columns that are computed from its rows.

    Attributes:
        scan: the table.
        expressions: the columns.
        names: their names.
        condition: which of its rows count; None for all.
        is_computed: whether the columns differ from those of the table.
    """

    scan: TableSourceScan
    expressions: tuple[Scalar, ...]
    names: tuple[str, ...]
    condition: Scalar | None
    is_computed: bool

    @staticmethod
    def of(relation: Relation, context: ConversionContext) -> LookedUp:
        """The table below projections and filters.

        Raises:
            PlanningError: when it cannot be looked up.
        """
        node = _over_scan(relation, context)
        if isinstance(node, Calc) and isinstance(node.input, TableSourceScan):
            return LookedUp(node.input, node.expressions, node.names, node.condition, True)
        if not isinstance(node, TableSourceScan):
            raise PlanningError("a table that is looked up cannot compute non-deterministic columns: the query can")
        return LookedUp(node, tuple(InputRef.all_of(node.schema)), node.schema.names, None, False)

    @cached_property
    def schema(self) -> Schema:
        """The columns."""
        return Schema(tuple(map(Scalar.as_field, self.expressions, self.names)))

    def shown(self, text: ScalarText) -> list[str]:
        """The columns in the form of plans."""
        shown = [text(each, self.scan.schema.names) for each in self.expressions]
        return [each if each == name else f"{each} AS {name}" for each, name in zip(shown, self.names, strict=True)]


def _over_scan(relation: Relation, context: ConversionContext) -> PhysicalNode:
    """Projections and filters over the scan of a table, which is not executed."""
    if isinstance(relation, Project):
        return projected(_over_scan(relation.input, context), relation.expressions, relation.names)
    if isinstance(relation, Filter):
        return filtered(_over_scan(relation.input, context), relation.condition)
    if isinstance(relation, LogicalWatermarkAssigner):
        return _over_scan(relation.input, context)
    assert isinstance(relation, Scan), "only tables are looked up"
    source = table_source(relation, context)
    if not source.can_look_up:
        error = PlanningError if relation.primary_key else TableDefinitionError
        raise error(
            f"table {'.'.join(relation.path)} cannot be looked up, only scanned: FOR SYSTEM_TIME AS OF a processing "
            "time and VECTOR_SEARCH need a table of a connector such as 'filesystem', 'jdbc', 'spark' or 'database'"
        )
    if relation.expectations:
        names = ", ".join(f"'expect.{each.name}'" for each in relation.expectations)
        raise PlanningError(
            f"table {'.'.join(relation.path)} expects something of its rows ({names}), which a lookup does not look "
            "at: look up a table without these options, and let the query have a condition"
        )
    return TableSourceScan(relation, source)


@conversion_rule(LogicalLookupJoin)
def _lookup(join: LogicalLookupJoin, context: ConversionContext) -> PhysicalNode:
    left, table = converted(join.left, context), LookedUp.of(join.right, context)
    found = JoinKeys.of(join.condition, len(left.schema))
    if any(found.null_safe):
        raise PlanningError("a lookup join compares keys by =, and not by IS NOT DISTINCT FROM: NULL is never found")
    keys, rest = _keys(table, found, left.schema)
    if not keys:
        path = ".".join(table.scan.scan.path)
        raise PlanningError(
            f"a lookup join needs an equality on columns of table {path}, whose types are those of the other side: "
            "write ON left.key = right.key, and cast the left side where types differ"
        )
    hint = LookupHint.of(join.hints, context.settings)
    if hint.shuffles:
        columns = [each.index for each in keys.values() if isinstance(each, InputRef)]
        left = Exchange(left, tuple(columns))
    condition = all_of([*found.rest, *rest]) if found.rest or rest else None
    return LookupJoin(left, table, join.kind, tuple(keys.items()), condition, hint)


def _keys(table: LookedUp, found: JoinKeys, left: Schema) -> tuple[dict[int, Scalar], list[Scalar]]:
    """The values to look up by column of the table, and the equalities that are checked afterwards."""
    keys, rest = _constants(table), list[Scalar]()
    constant = set(keys)
    for one, other in zip(found.left, found.right, strict=True):
        column, value = table.expressions[other], InputRef.all_of(left)[one]
        right = InputRef(len(left) + other, type=column.type)
        is_key = isinstance(column, InputRef) and isinstance(column.type, AtomicType) and column.index not in constant
        if not is_key:
            rest.append(call("=", value, right))
            continue
        assert isinstance(column, InputRef)
        if column.index in keys:  # as in Flink, the last one counts
            rest.append(call("=", keys[column.index], right))
        keys[column.index] = value
    return keys, rest


def _constants(table: LookedUp) -> dict[int, Scalar]:
    """The columns of a table that have to equal constants."""
    found: dict[int, Scalar] = {}
    for each in [] if table.condition is None else conjuncts(table.condition):
        if isinstance(each, Call) and each.function == "=":
            for column, value in (each.operands, each.operands[::-1]):
                if isinstance(column, InputRef) and isinstance(value, Literal):
                    found[column.index] = value
    return found


@dataclass(frozen=True)
class TemporalJoin(AnyJoin):
    """A join of each row with the version of a row that is valid at its time.

    Attributes:
        time: the column of times of the left input.
        version_time: the column of version times of the right input.
    """

    name: ClassVar[str] = "TemporalJoin"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda _node, inputs: inputs[0],
        needs=lambda _node, index, wanted: UpdateKind.ONLY_AFTER if index else wanted,
        adapts=True,
    )
    time: int
    version_time: int

    @property
    def requires_watermark(self) -> bool:
        return True

    def terms(self, text: ScalarText) -> Terms:
        names, width = self.pairs.names, len(self.left.schema)
        for name, value in super().terms(text):
            yield name, text(self._marked_condition(width), names) if name == "where" else value

    def _marked_condition(self, width: int) -> Scalar:
        """The condition as plans show it, with the times."""
        refs = InputRef.all_of(self.pairs)
        key = sorted(min(self.right.upsert_keys, key=sorted)) if self.right.upsert_keys else self.keys.right
        keys = [
            _marker("CONDITION_PRIMARY_KEY", [refs[width + index] for index in key]),
            _marker("LEFT_KEY", [refs[index] for index in self.keys.left]),
            _marker("RIGHT_KEY", [refs[width + index] for index in self.keys.right]),
        ]
        times = (refs[self.time], refs[width + self.version_time])
        versions = _marker("CONDITION", [*times, *keys])
        parts = conjuncts(self.condition)
        equal = [each for each in parts if is_equality(each, width)]
        return condition_of([*equal, *(each for each in parts if each not in equal), versions])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        spec = TemporalJoinSpec(**self.about(builder), time_fields=(self.time, self.version_time))
        return builder.add(spec, self.name, *self.keyed(inputs))


def _marker(name: str, operands: Sequence[Scalar]) -> Call:
    return Call(f"__TEMPORAL_JOIN_{name}", tuple(operands), type=BOOLEAN)


@conversion_rule(LogicalTemporalJoin)
def _temporal(join: LogicalTemporalJoin, context: ConversionContext) -> PhysicalNode:
    left = converted(join.left, context)
    if context.is_batch:
        raise PlanningError("temporal joins need streaming mode: tables have no versions in batch mode")
    right = converted(join.right, context)
    keys = JoinKeys.of(join.condition, len(left.schema))
    if not any(key <= set(keys.right) for key in right.upsert_keys):
        raise PlanningError(
            "a join with versions of a table needs its primary key in the condition: define PRIMARY KEY (...) NOT "
            "ENFORCED, or a view that keeps the last row of each key by ROW_NUMBER(), and compare all columns of it"
        )
    exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
    return TemporalJoin(*exchanges, join.kind, join.condition, keys, join.time, join.version_time)
