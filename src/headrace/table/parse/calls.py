"""Function calls: arguments, clauses, and windows."""

from typing import Final

from headrace.table.parse.cursor import NAMES
from headrace.table.parse.diagnosis import AN_EXPRESSION
from headrace.table.parse.forms import FORMS, FormParser
from headrace.table.parse.precedence import IS, NOT, SIGN
from headrace.table.parse.tree.expressions import (
    BoundKind,
    DefaultArgument,
    Descriptor,
    ModelArgument,
    NamedArgument,
    NullTreatment,
    OrderItem,
    Over,
    OverWindow,
    ScalarQuery,
    SetQuantifier,
    SqlCall,
    SqlExpression,
    Star,
    TableArgument,
    UnaryOperator,
    WindowFrame,
    WindowFrameBound,
)
from headrace.table.parse.tree.node import Name, Path, QueryExpression
from headrace.table.parse.tree.queries import TableQuery

_FUNCTIONS: Final = """
    ABS AVG CARDINALITY CEILING CHAR CHARACTER_LENGTH CHAR_LENGTH CLASSIFIER COALESCE COLLECT COUNT
    COVAR_POP COVAR_SAMP CUME_DIST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DENSE_RANK ELEMENT EVERY EXP
    FIRST_VALUE FLOOR FUSION GROUPING HOUR INTERSECTION LAG LAST_VALUE LEAD LEFT LN LOCALTIME
    LOCALTIMESTAMP LOWER MATCH_NUMBER MAX MIN MINUTE MOD MONTH NEXT NTH_VALUE NTILE NULLIF OCTET_LENGTH
    PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK POWER PREV RANK REGR_COUNT REGR_SXX REGR_SYY RIGHT ROW_NUMBER
    SECOND SOME SQRT STDDEV_POP STDDEV_SAMP SUM TRUNCATE UPPER USER VAR_POP VAR_SAMP YEAR
"""

_CONTEXT: Final = """
    CURRENT_CATALOG CURRENT_DATE CURRENT_DEFAULT_TRANSFORM_GROUP CURRENT_PATH CURRENT_ROLE CURRENT_SCHEMA
    CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER LOCALTIME LOCALTIMESTAMP SESSION_USER SYSTEM_USER USER
"""

FUNCTION_WORDS: Final = frozenset(_FUNCTIONS.split())
"""Reserved words that are functions."""

CONTEXT_WORDS: Final = frozenset(_CONTEXT.split())
"""Reserved words that are functions without parentheses."""

_QUANTIFIERS: Final = {each.value: each for each in SetQuantifier}

PREFIXES: Final = {
    "NOT": (UnaryOperator.NOT, NOT),
    "-": (UnaryOperator.MINUS, SIGN),
    "+": (UnaryOperator.PLUS, SIGN),
}
"""Prefix operators and their precedences."""


class CallParser(FormParser):
    """Parses the rest of a call after the function's name."""

    __slots__ = ()

    def _call_behind(self, function: Path, *before: SqlExpression) -> SqlExpression:
        """The call of a function whose name has been parsed, up to ``OVER``."""
        if len(function.names) == 1 and function.names[0].text.upper() == "DESCRIPTOR":
            return self._descriptor(function)
        self.expect("(")
        quantifier = self.choose_optional(_QUANTIFIERS)
        arguments = self._arguments(quantifier is None)
        nulls, order = self._clauses_inside(function)
        self.expect(")")
        nulls = self._null_treatment() or nulls
        is_within_group = self.accept_all("WITHIN", "GROUP")
        if is_within_group:
            self.expect("(")
            order = self.order_by() or self.fail("ORDER")
            self.expect(")")
        condition = self._filter()
        start = before[0].start if before else function.start
        call = SqlCall(
            function,
            (*before, *arguments),
            quantifier,
            nulls,
            order,
            is_within_group,
            condition,
            start=start,
            end=self.end,
        )
        return self._over(call) if self.at("OVER") else call

    def _clauses_inside(self, function: Path) -> tuple[NullTreatment | None, tuple[OrderItem, ...]]:
        """The clauses after the argument, inside the parentheses, which only ``ARRAY_AGG`` has."""
        if str(function).upper() == "ARRAY_AGG":
            return self._null_treatment(), self.order_by()
        if self.kind == "ORDER":
            self.refuse(
                "only ARRAY_AGG has its order in its parentheses", "Write WITHIN GROUP (ORDER BY ...) behind it."
            )
        return None, ()

    def _arguments(self, may_be_none: bool) -> list[SqlExpression]:
        """The arguments in the parentheses of a call; that of ``COUNT(*)`` is a star."""
        if may_be_none and self.at(")"):
            return []
        if may_be_none and self.at("*"):
            token = self.advance()
            return [Star(start=token.start, end=token.end)]
        arguments = [self._argument()]
        while self.accept(","):
            arguments.append(self._argument())
        return arguments

    def _argument(self) -> SqlExpression:
        kind = self.kind
        if self.ahead() == "=>" and kind in NAMES:
            name = self.name()
            self.advance()
            value = self._plain_argument(self.kind)
            return NamedArgument(name, value, start=name.start, end=self.end)
        return self._plain_argument(kind)

    def _plain_argument(self, kind: str) -> SqlExpression:
        start = self.start
        if kind == "TABLE":
            self.advance()
            table = self.path()
            return self._table_argument(TableQuery(table, start=start, end=table.end), start)
        if kind == "DEFAULT":
            self.advance()
            return DefaultArgument(start=start, end=self.end)
        if kind == "MODEL" and self.ahead() in NAMES:
            self.advance()
            return ModelArgument(self.path(), start=start, end=self.end)
        value = self.query_argument() if kind in ("SELECT", "WITH", "VALUES") else self.expression()
        if isinstance(value, ScalarQuery) and self.at_any(("PARTITION", "ORDER")):
            return self._table_argument(value.query, start)
        return value

    def query_argument(self) -> SqlExpression:
        """A query without parentheses as an argument."""
        start = self.start
        query = self.query()
        return ScalarQuery(query, start=start, end=self.end)

    def _table_argument(self, query: QueryExpression, start: int) -> SqlExpression:
        names: tuple[Name, ...] = ()
        order: tuple[OrderItem, ...] = ()
        if self.accept("PARTITION"):
            self.expect("BY")
            names = self.names_in_parentheses() if self.at("(") else (self.name(),)
        if self.accept("ORDER"):
            self.expect("BY")
            order = self.in_parentheses(self.order_item) if self.at("(") else (self.order_item(),)
        return TableArgument(query, names, order, start=start, end=self.end)

    def _descriptor(self, function: Path) -> SqlExpression:
        self.expect("(")
        columns = () if self.at(")") else self.some(self.path)
        self.expect(")")
        return Descriptor(columns, start=function.start, end=self.end)

    def _null_treatment(self) -> NullTreatment | None:
        if self.accept_all("IGNORE", "NULLS"):
            return NullTreatment.IGNORE
        return NullTreatment.RESPECT if self.accept_all("RESPECT", "NULLS") else None

    def _filter(self) -> SqlExpression | None:
        if not self.accept("FILTER"):
            return None
        self.expect("(", "WHERE")
        condition = self.expression()
        self.expect(")")
        return condition

    # --- windows and order -------------------------------------------------------------------------------------------

    def _over(self, call: SqlCall) -> SqlExpression:
        self.advance()
        window = self.window() if self.at("(") else self.name()
        return Over(call, window, start=call.start, end=self.end)

    def window(self) -> OverWindow:
        """A window in parentheses."""
        start = self.start
        self.expect("(")
        base = self.name() if self.at_name() else None
        partition: tuple[SqlExpression, ...] = ()
        if self.accept("PARTITION"):
            self.expect("BY")
            partition = self.some(self.expression)
        order = self.order_by()
        frame = self._frame() if self.at_any(("ROWS", "RANGE")) else None
        partial = self.choose_optional({"ALLOW": True, "DISALLOW": False})
        if partial is not None:
            self.expect("PARTIAL")
        self.expect(")")
        return OverWindow(base, partition, order, frame, partial, start=start, end=self.end)

    def _frame(self) -> WindowFrame:
        start = self.start
        is_rows = self.advance().kind == "ROWS"
        high = None
        if self.accept("BETWEEN"):
            low = self._bound()
            self.expect("AND")
            high = self._bound()
        else:
            low = self._bound()
        return WindowFrame(is_rows, low, high, start=start, end=self.end)

    def _bound(self) -> WindowFrameBound:
        start = self.start
        if self.accept_all("CURRENT", "ROW"):
            return WindowFrameBound(BoundKind.CURRENT_ROW, start=start, end=self.end)
        if self.at("UNBOUNDED") and self.ahead() in ("PRECEDING", "FOLLOWING"):
            self.advance()
            return WindowFrameBound(BoundKind(f"UNBOUNDED {self.advance().kind}"), start=start, end=self.end)
        if not self._may_begin_expression():
            self.fail("CURRENT ROW", "UNBOUNDED PRECEDING", AN_EXPRESSION)
        offset = self.expression(IS)
        kind = self.choose({"PRECEDING": BoundKind.PRECEDING, "FOLLOWING": BoundKind.FOLLOWING})
        return WindowFrameBound(kind, offset, start=start, end=self.end)

    def _may_begin_expression(self) -> bool:
        return self.kind in NAMES or self.kind in FORMS or self.kind in ("(", *PREFIXES, *FUNCTION_WORDS)

    def order_by(self) -> tuple[OrderItem, ...]:
        if not self.accept("ORDER"):
            return ()
        self.expect("BY")
        return self.some(self.order_item)

    def order_item(self) -> OrderItem:
        """An item of ORDER BY."""
        expression = self.expression()
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        nulls_first = None
        if self.accept("NULLS"):
            nulls_first = self.choose({"FIRST": True, "LAST": False})
        return OrderItem(expression, descending, nulls_first, start=expression.start, end=self.end)
