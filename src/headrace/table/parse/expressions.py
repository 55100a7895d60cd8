"""Expressions: a Pratt parser, driven by a table of operators."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.table.parse.calls import CONTEXT_WORDS, FUNCTION_WORDS, PREFIXES, CallParser
from headrace.table.parse.cursor import NAMES
from headrace.table.parse.diagnosis import AN_OPERATOR
from headrace.table.parse.forms import FORMS, FORMS_OF_NAMES, QUERY_WORDS
from headrace.table.parse.precedence import AND, COMPARISON, IS, ITEM, MULTISET, OR, PATTERN, PRODUCT, SUM
from headrace.table.parse.tree.expressions import (
    Between,
    Binary,
    BinaryOperator,
    Exists,
    Identifier,
    InList,
    InQuery,
    IntervalExpression,
    IsTest,
    ItemAccess,
    Like,
    LikeKind,
    Logical,
    MatchSemantics,
    OperandTest,
    Quantified,
    RowConstructor,
    ScalarQuery,
    SetQuantifier,
    SqlCall,
    SqlExpression,
    SqlFieldAccess,
    Star,
    Unary,
)
from headrace.table.parse.tree.json import JsonFormatted
from headrace.table.parse.tree.node import Name, Path, QueryExpression
from headrace.table.parse.types import INTERVAL_UNITS

_QUANTIFIERS: Final = {each.value: each for each in SetQuantifier}
_TESTS: Final = {
    **{
        test.value: test
        for test in (OperandTest.NULL, OperandTest.TRUE, OperandTest.FALSE, OperandTest.UNKNOWN, OperandTest.EMPTY)
    },
    "JSON": OperandTest.JSON,
}
_JSON_TESTS: Final = {
    "VALUE": OperandTest.JSON_VALUE,
    "OBJECT": OperandTest.JSON_OBJECT,
    "ARRAY": OperandTest.JSON_ARRAY,
    "SCALAR": OperandTest.JSON_SCALAR,
}


class Infix(NamedTuple):
    """An infix or postfix operator.

    Attributes:
        precedence: its precedence; Calcite's numbers.
        parse: parses from its first token, given the operand before it.
        operator: the operator in the tree, if it is a plain binary one.
    """

    precedence: int
    parse: "Callable[[ExpressionParser, SqlExpression, Infix], SqlExpression]"
    operator: BinaryOperator | None = None


class ExpressionParser(CallParser):
    """Parses expressions by the precedence of their operators.

    :meth:`expression` parses an operand, and then consumes operators while their precedence is high enough; each parses
    its right operand in the same way. A chain of operators of one precedence is a loop, so that ten thousand terms take
    no more stack than two. The depth of nesting is counted, and refused before the stack overflows.
    """

    __slots__ = ()

    @abstractmethod
    def query_behind(self, first: QueryExpression) -> QueryExpression:
        """The rest of a query whose first part was in parentheses."""

    def expression(self, least: int = 0) -> SqlExpression:
        self.deeper()
        left = self._operand()
        while True:
            infix = _INFIX.get(self.kind)
            if infix is None or infix.precedence < least:
                self.note(AN_OPERATOR)
                self._depth -= 1
                return left
            found = infix.parse(self, left, infix)
            if found is left:  # the keyword is a name here
                self._depth -= 1
                return left
            left = found

    # --- operands ----------------------------------------------------------------------------------------------------

    def _operand(self) -> SqlExpression:
        kind = self.kind
        if kind in NAMES:
            return self._named()
        if kind == "(":
            return self._parenthesized()
        form = FORMS.get(kind)
        if form is not None:
            return form(self)
        if kind in PREFIXES:
            return self._unary()
        if kind in FUNCTION_WORDS and (self.ahead() == "(" or kind not in CONTEXT_WORDS):
            return self._keyword_call()
        return self._rare_operand(kind)

    def _rare_operand(self, kind: str) -> SqlExpression:
        start = self.start
        if kind in CONTEXT_WORDS:
            name = self.advance()
            path = Path((Name(kind, start=start, end=name.end),), start=start, end=name.end)
            return SqlCall(path, has_parentheses=False, start=start, end=name.end)
        if kind == "ROW" and self.ahead() == "(":
            self.advance()
            items = self.in_parentheses(self.expression)
            return RowConstructor(items, start=start, end=self.end)
        if kind in ("EXISTS", "UNIQUE"):
            self.advance()
            return Exists(self.query_in_parentheses(), kind == "UNIQUE", start=start, end=self.end)
        if kind == "RUNNING":
            self.advance()
            return MatchSemantics(False, self.expression(ITEM), start=start, end=self.end)
        return self.refuse_operand()

    def _unary(self) -> SqlExpression:
        start = self.start
        operator, precedence = PREFIXES[self.advance().kind]
        operand = self.expression(precedence)
        return Unary(operator, operand, start=start, end=operand.end)

    def _final_has_operand(self) -> bool:
        is_column = self.ahead() in NAMES and self.ahead(2) == "."
        return is_column or self.ahead() in ("FIRST", "LAST", *FUNCTION_WORDS)

    def _named(self) -> SqlExpression:
        """A column, a call, or a form that starts with a non-reserved keyword."""
        form = FORMS_OF_NAMES.get((self.kind, self.ahead()))
        if form is not None:
            return form(self)
        start = self.start
        if self.kind == "FINAL" and self._final_has_operand():
            self.advance()
            return MatchSemantics(True, self.expression(ITEM), start=start, end=self.end)
        names = [self.name()]
        while self.at(".") and self.ahead() != "*":
            self.advance()
            names.append(self.name())
        if self.at("("):
            return self._call_behind(Path(tuple(names), start=start, end=self.end))
        if self.accept("."):
            self.expect("*")
            return Star(tuple(names), start=start, end=self.end)
        return Identifier(tuple(names), start=start, end=self.end)

    def _keyword_call(self) -> SqlExpression:
        token = self.advance()
        name = Name(token.kind, start=token.start, end=token.end)
        return self._call_behind(Path((name,), start=token.start, end=token.end))

    def _parenthesized(self) -> SqlExpression:
        """The content of parentheses: a query, an expression, a row of several, or an amount of a unit."""
        start = self.start
        self.advance()
        first = self._query_or_expression()
        items = [first]
        while self.accept(","):
            items.append(self.expression())
        self.expect(")")
        if len(items) > 1:
            return RowConstructor(tuple(items), False, start=start, end=self.end)
        if self.kind in INTERVAL_UNITS and not isinstance(first, ScalarQuery):
            qualifier = self.interval_qualifier()
            return IntervalExpression(first, qualifier, start=start, end=self.end)
        return first

    def _query_or_expression(self) -> SqlExpression:
        start = self.start
        if self.at_any(QUERY_WORDS):
            query = self.query()
            return ScalarQuery(query, start=start, end=self.end)
        found = self.expression()
        if isinstance(found, ScalarQuery) and self.at_any(_QUERY_GOES_ON):
            query = self.query_behind(found.query)
            return ScalarQuery(query, start=start, end=self.end)
        return found

    def query_in_parentheses(self) -> QueryExpression:
        """A query in parentheses."""
        self.expect("(")
        query = self.query()
        self.expect(")")
        return query

    # --- operators ---------------------------------------------------------------------------------------------------

    def _binary(self, left: SqlExpression, infix: Infix) -> SqlExpression:
        operator = infix.operator
        assert operator is not None
        self.advance()
        right = self.expression(infix.precedence + 1)
        return Binary(operator, left, right, start=left.start, end=self.end)

    def _compare(self, left: SqlExpression, infix: Infix) -> SqlExpression:
        if self.ahead() not in ("ANY", "SOME", "ALL") or self.ahead(2) != "(":
            return self._binary(left, infix)
        assert infix.operator is not None
        self.advance()
        is_all = self.advance().kind == "ALL"
        query, items = self._list_or_query()
        return Quantified(infix.operator, left, is_all, query, items, start=left.start, end=self.end)

    def _logical(self, left: SqlExpression, infix: Infix) -> SqlExpression:
        word = self.kind
        operands = [left]
        while self.accept(word):
            operands.append(self.expression(infix.precedence + 1))
        return Logical(word == "AND", tuple(operands), start=left.start, end=self.end)

    def _is(self, left: SqlExpression, _: Infix) -> SqlExpression:
        self.advance()
        negated = self.accept("NOT")
        if self.accept_all("DISTINCT", "FROM"):
            operator = BinaryOperator.IS_NOT_DISTINCT_FROM if negated else BinaryOperator.IS_DISTINCT_FROM
            right = self.expression(COMPARISON + 1)
            return Binary(operator, left, right, start=left.start, end=self.end)
        if self.accept_all("A", "SET"):
            test = OperandTest.A_SET
        else:
            if not self.at_any(_TESTS):
                self.fail("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT", "JSON")
            test = _TESTS[self.advance().kind]
            if test is OperandTest.JSON:
                test = self.choose_optional(_JSON_TESTS) or test
        return IsTest(left, test, negated, start=left.start, end=self.end)

    def _not(self, left: SqlExpression, _: Infix) -> SqlExpression:
        """``NOT`` after an operand: ``NOT IN``, ``NOT BETWEEN``, ``NOT LIKE``, ``NOT SUBMULTISET OF``."""
        negatable = _NEGATABLE.get(self.ahead())
        if negatable is None:
            if self.ahead() == "NULL":  # of a type
                return left
            self.advance()
            self.fail(*_NEGATABLE)
        self.advance()
        return negatable(self, left, True)

    def _in(self, left: SqlExpression, _: Infix) -> SqlExpression:
        return self._is_in(left, False)

    def _is_in(self, left: SqlExpression, negated: bool) -> SqlExpression:
        self.advance()
        query, items = self._list_or_query()
        if query is not None:
            return InQuery(left, query, negated, start=left.start, end=self.end)
        return InList(left, items, negated, start=left.start, end=self.end)

    def _list_or_query(self) -> tuple[QueryExpression | None, tuple[SqlExpression, ...]]:
        self.expect("(")
        first = self._query_or_expression()
        items = [first]
        while self.accept(","):
            items.append(self.expression())
        self.expect(")")
        if isinstance(first, ScalarQuery) and len(items) == 1:
            return first.query, ()
        return None, tuple(items)

    def _between(self, left: SqlExpression, _: Infix) -> SqlExpression:
        return self._is_between(left, False)

    def _is_between(self, left: SqlExpression, negated: bool) -> SqlExpression:
        self.advance()
        symmetric = self.accept("SYMMETRIC")
        if not symmetric:
            self.accept("ASYMMETRIC")
        low = self.expression(PATTERN + 1)
        self.expect("AND")
        high = self.expression(PATTERN)  # these operators are right-associative
        return Between(left, low, high, negated, symmetric, start=left.start, end=self.end)

    def _like(self, left: SqlExpression, _: Infix) -> SqlExpression:
        return self._is_like(left, False)

    def _is_like(self, left: SqlExpression, negated: bool) -> SqlExpression:
        word = self.advance().kind
        if word == "SIMILAR":
            self.expect("TO")
        kind = LikeKind.SIMILAR_TO if word == "SIMILAR" else LikeKind(word)
        pattern = self.expression(PATTERN)  # these operators are right-associative
        escape = self.expression(PATTERN + 1) if self.accept("ESCAPE") else None
        return Like(kind, left, pattern, escape, negated, start=left.start, end=self.end)

    def _submultiset(self, left: SqlExpression, _: Infix) -> SqlExpression:
        return self._is_submultiset(left, False)

    def _is_submultiset(self, left: SqlExpression, negated: bool) -> SqlExpression:
        self.expect("SUBMULTISET", "OF")
        operator = BinaryOperator.NOT_SUBMULTISET_OF if negated else BinaryOperator.SUBMULTISET_OF
        right = self.expression(COMPARISON + 1)
        return Binary(operator, left, right, start=left.start, end=self.end)

    def _member(self, left: SqlExpression, infix: Infix) -> SqlExpression:
        if self.ahead() != "OF":
            self.advance()
            self.fail("OF")
        self.advance()
        return self._binary(left, infix)

    def _immediately(self, left: SqlExpression, _: Infix) -> SqlExpression:
        """``IMMEDIATELY PRECEDES`` and ``SUCCEEDS``; the word may be an alias as well."""
        if self.ahead() not in ("PRECEDES", "SUCCEEDS"):
            return left
        self.advance()
        operator = BinaryOperator(f"IMMEDIATELY {self.advance().kind}")
        right = self.expression(COMPARISON + 1)
        return Binary(operator, left, right, start=left.start, end=self.end)

    def _multiset(self, left: SqlExpression, _: Infix) -> SqlExpression:
        self.advance()
        word = self.choose({"UNION": "UNION", "INTERSECT": "INTERSECT", "EXCEPT": "EXCEPT"})
        quantifier = self.choose_optional(_QUANTIFIERS) or SetQuantifier.ALL
        operator = BinaryOperator(f"MULTISET {word} {quantifier.value}")
        right = self.expression(OR)
        return Binary(operator, left, right, start=left.start, end=self.end)

    def _format(self, left: SqlExpression, _: Infix) -> SqlExpression:
        """``FORMAT JSON``; the first word may be an alias as well."""
        if self.ahead() != "JSON":
            return left
        self.advance()
        self.advance()
        return JsonFormatted(left, start=left.start, end=self.end)

    def _item(self, left: SqlExpression, _: Infix) -> SqlExpression:
        self.advance()
        index = self.expression()
        self.expect("]")
        return ItemAccess(left, index, start=left.start, end=self.end)

    def _field(self, left: SqlExpression, _: Infix) -> SqlExpression:
        """``.name`` after an operand that is not a plain name; with parentheses it is a call with the operand first."""
        self.advance()
        name = self.name()
        if not self.at("("):
            return SqlFieldAccess(left, name, start=left.start, end=self.end)
        return self._call_behind(Path((name,), start=name.start, end=name.end), left)


_QUERY_GOES_ON: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH"})
"""The keywords after a parenthesized query that make it the first part of a larger query."""

_NEGATABLE: Final[dict[str, Callable[[ExpressionParser, SqlExpression, bool], SqlExpression]]] = {
    "IN": ExpressionParser._is_in,
    "BETWEEN": ExpressionParser._is_between,
    **dict.fromkeys(("LIKE", "ILIKE", "RLIKE", "SIMILAR"), ExpressionParser._is_like),
    "SUBMULTISET": ExpressionParser._is_submultiset,
}

_INFIX: Final[dict[str, Infix]] = {
    "OR": Infix(OR, ExpressionParser._logical),
    "AND": Infix(AND, ExpressionParser._logical),
    "IS": Infix(IS, ExpressionParser._is),
    **{
        operator.value: Infix(COMPARISON, ExpressionParser._compare, operator)
        for operator in (
            BinaryOperator.EQUALS,
            BinaryOperator.NOT_EQUALS,
            BinaryOperator.LESS,
            BinaryOperator.LESS_OR_EQUAL,
            BinaryOperator.GREATER,
            BinaryOperator.GREATER_OR_EQUAL,
        )
    },
    **{
        operator.value: Infix(COMPARISON, ExpressionParser._binary, operator)
        for operator in (
            BinaryOperator.OVERLAPS,
            BinaryOperator.CONTAINS,
            BinaryOperator.PERIOD_EQUALS,
            BinaryOperator.PRECEDES,
            BinaryOperator.SUCCEEDS,
        )
    },
    "IMMEDIATELY": Infix(COMPARISON, ExpressionParser._immediately),
    "MEMBER": Infix(COMPARISON, ExpressionParser._member, BinaryOperator.MEMBER_OF),
    "SUBMULTISET": Infix(COMPARISON, ExpressionParser._submultiset),
    "MULTISET": Infix(MULTISET, ExpressionParser._multiset),
    "NOT": Infix(PATTERN, ExpressionParser._not),
    "IN": Infix(PATTERN, ExpressionParser._in),
    "BETWEEN": Infix(PATTERN, ExpressionParser._between),
    **dict.fromkeys(("LIKE", "ILIKE", "RLIKE", "SIMILAR"), Infix(PATTERN, ExpressionParser._like)),
    "+": Infix(SUM, ExpressionParser._binary, BinaryOperator.PLUS),
    "-": Infix(SUM, ExpressionParser._binary, BinaryOperator.MINUS),
    "*": Infix(PRODUCT, ExpressionParser._binary, BinaryOperator.TIMES),
    "/": Infix(PRODUCT, ExpressionParser._binary, BinaryOperator.DIVIDE),
    "%": Infix(PRODUCT, ExpressionParser._binary, BinaryOperator.MODULO),
    "||": Infix(PRODUCT, ExpressionParser._binary, BinaryOperator.CONCAT),
    "FORMAT": Infix(IS, ExpressionParser._format),
    "[": Infix(ITEM, ExpressionParser._item),
    ".": Infix(ITEM, ExpressionParser._field),
}
"""Infix and postfix operators, by the kind of their first token."""
