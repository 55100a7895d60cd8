"""Table functions: windows, UNNEST, and user-defined ones."""

from typing import TYPE_CHECKING, Final

from headrace.common.logical_types import (
    ArrayType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
)
from headrace.common.types import RowKind
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.models import MODEL_FUNCTIONS, bound_model_function
from headrace.table.bind.scopes import Scope
from headrace.table.bind.vector_search import VECTOR_SEARCH, bound_vector_search
from headrace.table.functions.definitions import FunctionDefinition
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.types import CHARACTERS, INT, TIMESTAMPS, is_in, timestamp
from headrace.table.logical.relations import (
    Filter,
    KindCodes,
    LogicalAggregate,
    LogicalFromChangelog,
    LogicalSort,
    LogicalToChangelog,
    LogicalWindowTableFunction,
    Project,
    Relation,
    TableFunctionScan,
    Unnest,
    WindowKind,
)
from headrace.table.logical.scalars import Call, InputRef, Literal
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import queries
from headrace.table.parse.tree.node import SqlNode

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

_PARAMETERS: Final = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_CHANGELOGS: Final = frozenset({"TO_CHANGELOG", "FROM_CHANGELOG"})
_CHANGELOG_ARGUMENTS: Final = ("input", "op", "op_mapping")
_OWN_NAMES: Final = (*_PARAMETERS, *_CHANGELOGS, *MODEL_FUNCTIONS, VECTOR_SEARCH)
_OPTIONAL: Final = "OFFSET"
_STEPS: Final = ("SLIDE", "STEP")
_MILLISECOND: Final = 1000


class TableFunctionBinder:
    """Binds a call of a table function.

    Args:
        queries: the binder of queries.
        scope: the scope of the arguments.
    """

    def __init__(self, queries: "QueryBinder", scope: Scope) -> None:
        self.queries = queries
        self.context = queries.context
        self.scope = scope

    def bind(self, node: sql.SqlCall) -> Relation:
        """Bind a call."""
        if node.name in _PARAMETERS:
            return self._window(node)
        if node.name in _CHANGELOGS:
            return self._changelog(node)
        if node.name in MODEL_FUNCTIONS:
            return bound_model_function(self, node)
        function = self.context.function(node.function)
        if function is None and node.name == VECTOR_SEARCH:
            return bound_vector_search(self, node)
        if function is not None and function.kind is FunctionKind.TABLE:
            return self._user_defined(node, function)
        if function is not None:
            reason = f"'{node.function}' is not a table function: it returns a value, not rows"
            advice = self.context.advice_about_hidden(node.function) or f"Write SELECT {node.function}(...)."
            raise self.context.error(node.function, reason, advice)
        raise self.context.error(
            node.function,
            f"no table function '{node.function}' is known",
            misspelt(node.name, (*_OWN_NAMES, *self.context.user_function_names())),
        )

    def _user_defined(self, node: sql.SqlCall, function: FunctionDefinition) -> Relation:
        """A call of a user-defined function: a scalar with an array of rows for each row."""
        call = ExpressionBinder(self.queries, self.scope, node.name).user_table_function(node, function)
        assert isinstance(call.type, ArrayType)
        assert isinstance(call.type.element, RowType)
        fields = zip(call.type.element.names, call.type.element.types, strict=True)
        columns = Schema(tuple(Field(name, kind) for name, kind in fields))
        return TableFunctionScan(call.function, call.operands, columns, call.options)

    # --- changelogs --------------------------------------------------------------------------------------------------

    def _changelog(self, node: sql.SqlCall) -> Relation:
        """``TO_CHANGELOG(input => TABLE t)`` and ``FROM_CHANGELOG``."""
        arguments = self._changelog_arguments(node)
        source, partition_by = self.rows(node, arguments["input"])
        if partition_by:
            raise self.context.error(node, f"{node.name} takes rows one by one, without PARTITION BY")
        column = self._kind_column(arguments.get("op"))
        codes = self._codes(node, arguments.get("op_mapping"))
        if node.name == "TO_CHANGELOG":
            if column in source.schema.names:
                raise self.context.error(node, f"the input has a column '{column}' already", "Write op => DESCRIPTOR.")
            return LogicalToChangelog(source, column, codes)
        if column not in source.schema.names:
            raise self.context.error(node, f"column '{column}' not found", misspelt(column, source.schema.names))
        index = source.schema.names.index(column)
        kind = source.schema[index].type
        if not is_in(kind, CHARACTERS):
            raise self.context.error(node, f"column '{column}' is {kind}, and no text that says the kind of change")
        return LogicalFromChangelog(source, index, codes)

    def _codes(self, node: sql.SqlCall, argument: sql.SqlExpression | None) -> KindCodes:
        """``op_mapping``: kinds and texts, of which the keys may be several with commas between them."""
        if argument is None:
            return ()
        pairs = self._texts(argument)
        found: list[tuple[RowKind, str]] = []
        for key, value in pairs.items():
            for part in (each.strip() for each in key.split(",")):
                name, code = (part, value) if node.name == "TO_CHANGELOG" else (value, part)
                if name not in RowKind.__members__:
                    advice = misspelt(name, RowKind.__members__) or f"There are {', '.join(RowKind.__members__)}."
                    raise self.context.error(argument, f"'{name}' is no kind of change", advice)
                found.append((RowKind[name], code))
        kinds = (
            [kind for kind, _ in found] if node.name == "TO_CHANGELOG" else [RowKind[each] for each in pairs.values()]
        )
        if len(set(kinds)) < len(kinds):
            reason = "a kind of change comes twice in op_mapping"
            raise self.context.error(argument, reason, "Write several codes of one kind as 'c, r'.")
        if node.name == "FROM_CHANGELOG" and RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds:
            reason = "op_mapping has UPDATE_AFTER, and no UPDATE_BEFORE"
            raise self.context.error(argument, reason, "Map both: changes of which rows before them are not known.")
        return tuple(found)

    def _texts(self, argument: sql.SqlExpression) -> dict[str, str]:
        """The keys and values of ``MAP['a', 'b', ...]``, all of them literals; of equal keys the last one counts."""
        is_map = isinstance(argument, sql.CollectionConstructor) and argument.kind is sql.ConstructorKind.MAP
        items = argument.items if isinstance(argument, sql.CollectionConstructor) else ()
        texts = [item.value for item in items if isinstance(item, sql.StringLiteral)]
        if not is_map or len(texts) < len(items) or len(texts) % 2 or not texts:
            raise self.context.error(argument, "op_mapping expects MAP['text', 'text', ...]")
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def _changelog_arguments(self, node: sql.SqlCall) -> dict[str, sql.SqlExpression]:
        found: dict[str, sql.SqlExpression] = {}
        names = (*_CHANGELOG_ARGUMENTS, *map(str, range(len(node.arguments))))
        for argument, name in zip(node.arguments, names, strict=False):
            is_named = isinstance(argument, sql.NamedArgument)
            key = argument.name.text.lower() if isinstance(argument, sql.NamedArgument) else name
            if key not in _CHANGELOG_ARGUMENTS:
                advice = misspelt(key, _CHANGELOG_ARGUMENTS) if is_named else None
                reason = f"{node.name} takes {', '.join(_CHANGELOG_ARGUMENTS)}, and not this"
                raise self.context.error(argument, reason, advice)
            found[key] = argument.value if isinstance(argument, sql.NamedArgument) else argument
        if "input" not in found:
            raise self.context.error(node, f"{node.name} needs a table", f"Write {node.name}(input => TABLE t).")
        return found

    def _kind_column(self, argument: sql.SqlExpression | None) -> str:
        if argument is None:
            return "op"
        if not isinstance(argument, sql.Descriptor) or len(argument.columns) != 1:
            raise self.context.error(argument, "op expects DESCRIPTOR(column)")
        return argument.columns[0].names[-1].text

    # --- windows -----------------------------------------------------------------------------------------------------

    def _window(self, node: sql.SqlCall) -> Relation:
        arguments = self._named(node, _PARAMETERS[node.name])
        source, partition_by = self.rows(node, arguments["DATA"])
        if partition_by and node.name != "SESSION":
            raise self.context.error(arguments["DATA"], f"{node.name} takes no PARTITION BY", "Only SESSION does.")
        data = arguments["DATA"]
        if isinstance(data, sql.TableArgument) and data.order_by:
            self.context.defer(data, f"{node.name} takes no ORDER BY: its rows are in order of time")
        time_column = self._time_column(node, arguments["TIMECOL"], source)
        intervals = {
            name: self._interval(node, argument)
            for name, argument in arguments.items()
            if name not in ("DATA", "TIMECOL")
        }
        sizes = {name: literal.value // _MILLISECOND for name, literal in intervals.items()}
        size = sizes.get("SIZE", sizes.get("GAP", 0))
        step = next((sizes[name] for name in _STEPS if name in sizes), None)
        self._check_sizes(node, sizes)
        return LogicalWindowTableFunction(
            source,
            WindowKind(node.name),
            time_column,
            size,
            step,
            sizes.get("OFFSET", 0),
            partition_by,
            self._window_columns(source, time_column),
            tuple(intervals.values()),
        )

    def _named(self, node: sql.SqlCall, parameters: tuple[str, ...]) -> dict[str, sql.SqlExpression]:
        """The arguments by parameter name, in the order of the parameters."""
        found: dict[str, sql.SqlExpression] = {}
        named = [isinstance(argument, sql.NamedArgument) for argument in node.arguments]
        if any(named) and not all(named):
            raise self.context.error(node, f"{node.name} takes all arguments by name, or none")
        for at, argument in enumerate(node.arguments):
            if isinstance(argument, sql.NamedArgument):
                name = argument.name.text.upper()
                if name not in parameters:
                    raise self.context.error(
                        argument.name, f"{node.name} has no parameter '{argument.name}'", misspelt(name, parameters)
                    )
                found[name] = argument.value
            elif at < len(parameters):
                found[parameters[at]] = argument
        missing = [name for name in parameters if name not in found and name != _OPTIONAL]
        if missing or len(node.arguments) > len(parameters):
            usage = f"{node.name}(TABLE table, DESCRIPTOR(time), {', '.join(parameters[2:])})"
            reason = f"{node.name} got {len(node.arguments)} arguments"
            raise self.context.error(node, reason, f"Write {usage}, of which OFFSET may be left out.")
        return {name: found[name] for name in parameters if name in found}

    def rows(self, node: sql.SqlCall, argument: sql.SqlExpression) -> tuple[Relation, tuple[int, ...]]:
        """The table that a function reads, and the columns of PARTITION BY."""
        if isinstance(argument, sql.ScalarQuery):
            return self.queries.query(argument.query, self.scope.parent), ()
        if not isinstance(argument, sql.TableArgument):
            advice = f"Write TABLE {argument}." if isinstance(argument, sql.Identifier) else None
            raise self.context.error(argument, f"{node.name} expects TABLE name, or a query in parentheses", advice)
        relation = self.queries.query(argument.query, self.scope.parent)
        names = relation.schema.names
        found = []
        for name in argument.partition_by:
            if name.text in names:
                found.append(names.index(name.text))
            else:
                self.context.defer(name, f"column '{name}' not found", misspelt(name.text, names))
        return relation, tuple(found)

    def _time_column(self, node: sql.SqlCall, argument: sql.SqlExpression, source: Relation) -> int:
        if not isinstance(argument, sql.Descriptor):
            raise self.context.error(argument, f"{node.name} expects DESCRIPTOR(column) here")
        if len(argument.columns) > 1:
            self.context.defer(argument, f"{node.name} expects DESCRIPTOR(column) here, of one column")
        path = argument.columns[0]
        if len(path.names) > 1:
            raise self.context.error(path, "DESCRIPTOR takes a column's name alone", f"Write {path.names[-1]}.")
        name, names = path.names[-1].text, source.schema.names
        if name not in names:
            raise self.context.error(path, f"column '{name}' not found", misspelt(name, names))
        column = source.schema[names.index(name)]
        if not is_in(column.type, TIMESTAMPS):
            raise self.context.error(
                path,
                f"{node.name} requires a column of type TIMESTAMP or TIMESTAMP_LTZ, but '{name}' is {column.type}",
                "Let the table compute one, such as t AS TO_TIMESTAMP(text), and WATERMARK FOR t.",
            )
        if self.context.is_streaming and (column.time is None or is_computed(source, names.index(name))):
            self.context.defer(
                path,
                f"{node.name} requires a time attribute, but '{name}' is a plain {column.type}",
                "A column is one by WATERMARK FOR, or by PROCTIME(); computing with it makes it a plain one.",
            )
        return names.index(name)

    def _interval(self, node: sql.SqlCall, argument: sql.SqlExpression) -> Literal:
        found = ExpressionBinder(self.queries, self.scope, node.name).bind(argument)
        if not isinstance(found, Literal) or not isinstance(found.type, IntervalType):
            raise self.context.error(argument, f"{node.name} expects an interval here, as INTERVAL '10' MINUTE")
        if found.type.unit.is_of_months:
            self.context.defer(argument, "the size of a window cannot be of months", "Use DAY, HOUR, MINUTE or SECOND.")
        return found

    def _check_sizes(self, node: sql.SqlCall, sizes: dict[str, int]) -> None:
        for name, size in sizes.items():
            if size <= 0 and name != "OFFSET":
                self.context.defer(node, f"{node.name} requires {name} to be positive, and it is {size} ms")
        size, step = sizes.get("SIZE", 0), sizes.get("STEP")
        if node.name == "TUMBLE" and 0 < size <= abs(sizes.get("OFFSET", 0)):
            offset = sizes["OFFSET"]
            self.context.defer(node, f"TUMBLE requires abs(OFFSET) < SIZE, and they are {offset} ms and {size} ms")
        if step is not None and step > 0 and size % step:
            self.context.defer(
                node, f"CUMULATE requires SIZE to be an integral multiple of STEP: {size} ms and {step} ms"
            )

    def _window_columns(self, source: Relation, time_column: int) -> tuple[Field, ...]:
        column = source.schema[time_column]
        bound = timestamp(3).not_null()
        time = column.time if self.context.is_streaming or column.time is TimeAttribute.PROCTIME else None
        return (
            Field("window_start", bound),
            Field("window_end", bound),
            Field("window_time", column.type.not_null(), time),
        )


def is_computed(relation: Relation, index: int) -> bool:
    """Return whether a time attribute is the result of a computation; it is materialized at execution."""
    while isinstance(relation, Filter | LogicalSort | Project):
        if isinstance(relation, Project):
            scalar = relation.expressions[index]
            if not isinstance(scalar, InputRef):
                is_kept = isinstance(scalar, Call) and scalar.function.endswith(("PROCTIME", "ROWTIME"))
                return not is_kept
            index = scalar.index
        relation = relation.input
    return isinstance(relation, LogicalAggregate) and index >= len(relation.group)


# --- UNNEST ----------------------------------------------------------------------------------------------------------


def unnested(binder: ExpressionBinder, node: queries.UnnestRelation) -> Relation:
    """``UNNEST(collection, ...) [WITH ORDINALITY]``."""
    operands = binder.bind_all(node.operands)
    fields: list[Field] = []
    for operand, each in zip(operands, node.operands, strict=True):
        fields.extend(_elements(binder, operand.type, each))
    if node.with_ordinality:
        fields.append(Field("ORDINALITY", INT.not_null()))
    return Unnest(operands, Schema(tuple(fields)), node.with_ordinality)


def _elements(binder: ExpressionBinder, kind: LogicalType, node: SqlNode) -> list[Field]:
    """The columns of a collection's elements: fields of rows, keys and values of maps."""
    if isinstance(kind, MapType):
        return [Field("KEY", kind.key), Field("VALUE", kind.value)]
    if not isinstance(kind, ArrayType | MultisetType):
        raise binder.context.error(node, f"UNNEST expects an array, a map or a multiset, and not {kind}")
    element = kind.element
    if isinstance(element, RowType):
        return [Field(name, part) for name, part in zip(element.names, element.types, strict=True)]
    return [Field("EXPR$0", element)]
