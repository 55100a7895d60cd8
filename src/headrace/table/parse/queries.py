"""Queries: ``SELECT`` and its clauses, ``VALUES``, ``WITH``, and set operations."""

from typing import Final

from headrace.table.parse.diagnosis import A_QUERY, AN_EXPRESSION
from headrace.table.parse.relations import RelationParser
from headrace.table.parse.tokens import APPROXIMATE, DECIMAL, INTEGER
from headrace.table.parse.tree.expressions import DynamicParameter, SetQuantifier, SqlExpression, Star
from headrace.table.parse.tree.node import QueryExpression
from headrace.table.parse.tree.queries import (
    EmptyGrouping,
    GroupBy,
    GroupingElement,
    GroupingElements,
    GroupingKind,
    NamedWindow,
    OrderedQuery,
    SelectItem,
    SelectQuery,
    SqlSetOperation,
    SqlSetOperator,
    TableQuery,
    ValuesQuery,
    WithItem,
    WithQuery,
)

_QUANTIFIERS: Final = {each.value: each for each in SetQuantifier}
_SET_OPERATORS: Final = {
    "UNION": SqlSetOperator.UNION,
    "EXCEPT": SqlSetOperator.EXCEPT,
    "INTERSECT": SqlSetOperator.INTERSECT,
}
_COUNTS: Final = (INTEGER, DECIMAL, APPROXIMATE, "?")


class QueryParser(RelationParser):
    """Parses queries, wherever Flink allows them."""

    __slots__ = ()

    def query(self) -> QueryExpression:
        self.deeper()
        start = self.start
        found = self._with() if self.at("WITH") else self._set_operation(self._intersection())
        found = self._ordered(found, start)
        self._depth -= 1
        return found

    def query_behind(self, first: QueryExpression) -> QueryExpression:
        return self._ordered(self._set_operation(self._intersection(first)), first.start)

    def _with(self) -> QueryExpression:
        start = self.start
        self.advance()
        is_recursive = self.accept("RECURSIVE")
        items = self.some(self._with_item)
        body = self._set_operation(self._intersection())
        return WithQuery(items, body, is_recursive, start=start, end=self.end)

    def _with_item(self) -> WithItem:
        name = self.name()
        columns = self.optional_names()
        self.expect("AS")
        query = self.query_in_parentheses()
        return WithItem(name, columns, query, start=name.start, end=self.end)

    # --- set operations ----------------------------------------------------------------------------------------------

    def _set_operation(self, left: QueryExpression) -> QueryExpression:
        while self.at_any(("UNION", "EXCEPT")):
            operator, is_all = self._set_operator()
            right = self._intersection()
            left = SqlSetOperation(operator, left, right, is_all, start=left.start, end=self.end)
        return left

    def _intersection(self, first: QueryExpression | None = None) -> QueryExpression:
        left = first or self._part()
        while self.at("INTERSECT"):
            operator, is_all = self._set_operator()
            right = self._part()
            left = SqlSetOperation(operator, left, right, is_all, start=left.start, end=self.end)
        return left

    def _set_operator(self) -> tuple[SqlSetOperator, bool]:
        operator = _SET_OPERATORS[self.advance().kind]
        return operator, self.choose_optional(_QUANTIFIERS) is SetQuantifier.ALL

    def _part(self) -> QueryExpression:
        start = self.start
        if self.at("SELECT"):
            return self._select()
        if self.at("("):
            return self.query_in_parentheses()
        if self.at_any(("VALUES", "VALUE")):
            self.advance()
            return ValuesQuery(self.some(self.row), start=start, end=self.end)
        if self.accept("TABLE"):
            return TableQuery(self.path(), start=start, end=self.end)
        return self.fail(A_QUERY, "SELECT", "VALUES", "WITH", "(")

    # --- order and limits --------------------------------------------------------------------------------------------

    def _ordered(self, body: QueryExpression, start: int) -> QueryExpression:
        begin = self._index
        order = self.order_by()
        limit, offset = self._limits()
        if self._index == begin:
            return body
        return OrderedQuery(body, order, limit, offset, start=start, end=self.end)

    def _limits(self) -> tuple[SqlExpression | None, SqlExpression | None]:
        if self.at("LIMIT"):
            limit = self._limit()
            return limit, self._offset()
        offset = self._offset()
        if offset is not None and self.at("LIMIT"):
            self.refuse("LIMIT stands before OFFSET", "Write LIMIT count OFFSET start.")
        return self._fetch(), offset

    def _limit(self) -> SqlExpression | None:
        self.expect("LIMIT")
        if self.accept("ALL"):
            return None
        count = self._count()
        if self.at(","):
            self.refuse("LIMIT takes one number", "Write LIMIT count OFFSET start.")
        return count

    def _offset(self) -> SqlExpression | None:
        if not self.accept("OFFSET"):
            return None
        count = self._count()
        if not self.accept("ROWS"):
            self.accept("ROW")
        return count

    def _fetch(self) -> SqlExpression | None:
        if not self.accept("FETCH"):
            return None
        self.choose({"FIRST": None, "NEXT": None})
        count = self._count()
        self.choose({"ROWS": None, "ROW": None})
        self.expect("ONLY")
        return count

    def _count(self) -> SqlExpression:
        token = self.token
        if not self.at_any(_COUNTS):
            self.fail(INTEGER)
        if self.accept("?"):
            return DynamicParameter(start=token.start, end=token.end)
        if token.kind != INTEGER:
            self.refuse(f"expected a whole number, found {token.text}")
        return self.integer_literal()

    # --- SELECT ------------------------------------------------------------------------------------------------------

    def _select(self) -> QueryExpression:
        start = self.start
        self.advance()
        hints = self.hints()
        if self.at("STREAM"):
            self.refuse("SELECT STREAM is not supported", "Leave STREAM out: queries of streams are streaming.")
        quantifier = self.choose_optional(_QUANTIFIERS)
        items = self.some(self._item_of_select)
        if not self.accept("FROM"):
            return SelectQuery(items, quantifier=quantifier, hints=hints, start=start, end=self.end)
        relation = self.relation()
        where = self.expression() if self.accept("WHERE") else None
        group_by = self._group_by() if self.at("GROUP") else None
        having = self.expression() if self.accept("HAVING") else None
        windows = self.some(self._named_window) if self.accept("WINDOW") else ()
        qualify = self.expression() if self.accept("QUALIFY") else None
        return SelectQuery(
            items, relation, where, group_by, having, windows, qualify, quantifier, hints, start=start, end=self.end
        )

    def _item_of_select(self) -> SelectItem:
        start = self.start
        if self.accept("*"):
            star = Star(start=start, end=self.end)
            return SelectItem(star, start=start, end=self.end)
        expression = self.expression()
        alias = self.name() if self.accept("AS") or self.at_name() else None
        return SelectItem(expression, alias, start=start, end=self.end)

    def _group_by(self) -> GroupBy:
        start = self.start
        self.expect("GROUP", "BY")
        quantifier = self.choose_optional(_QUANTIFIERS)
        elements = self.some(self._grouping)
        return GroupBy(elements, quantifier, start=start, end=self.end)

    def _grouping(self) -> GroupingElement:
        start = self.start
        if self.accept_all("GROUPING", "SETS"):
            elements = self.in_parentheses(self._grouping)
            return GroupingElements(GroupingKind.SETS, elements, start=start, end=self.end)
        if self.at_any(("ROLLUP", "CUBE")):
            kind = GroupingKind(self.advance().kind)
            columns = self.in_parentheses(self.expression)
            return GroupingElements(kind, columns, start=start, end=self.end)
        if self.accept_all("(", ")"):
            return EmptyGrouping(start=start, end=self.end)
        return self.expression()

    def _named_window(self) -> NamedWindow:
        name = self.name()
        self.expect("AS")
        return NamedWindow(name, self.window(), start=name.start, end=self.end)

    def only_expression(self) -> SqlExpression:
        """An expression that is the whole text."""
        if self.at("end"):
            self.fail(AN_EXPRESSION)
        return self.expression()
