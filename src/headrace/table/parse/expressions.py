"""Expressions: a Pratt parser, which a table of operators drives."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.table.parse.cursor import NAMES
from headrace.table.parse.diagnosis import AN_EXPRESSION, AN_OPERATOR
from headrace.table.parse.forms import FORMS, FORMS_OF_NAMES, QUERY_WORDS, FormParser
from headrace.table.parse.precedence import AND, COMPARISON, IS, ITEM, MULTISET, NOT, OR, PATTERN, PRODUCT, SIGN, SUM
from headrace.table.parse.tree.expressions import (
    Between,
    Binary,
    BinaryOperator,
    BoundKind,
    Call,
    DefaultArgument,
    Descriptor,
    Exists,
    FieldAccess,
    FrameBound,
    Identifier,
    InList,
    InQuery,
    IntervalExpression,
    IsTest,
    ItemAccess,
    JsonFormatted,
    Like,
    LikeKind,
    Logical,
    MatchSemantics,
    ModelArgument,
    NamedArgument,
    NullTreatment,
    OperandTest,
    OrderItem,
    Over,
    OverWindow,
    Quantified,
    Quantifier,
    RowConstructor,
    ScalarQuery,
    SqlExpression,
    Star,
    TableArgument,
    Unary,
    UnaryOperator,
    WindowFrame,
)
from headrace.table.parse.tree.node import Name, Path, QueryExpression
from headrace.table.parse.tree.queries import TableQuery
from headrace.table.parse.types import INTERVAL_UNITS

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

_FUNCTION_WORDS: Final = frozenset(_FUNCTIONS.split())
"""Reserved words that are functions."""

_CONTEXT_WORDS: Final = frozenset(_CONTEXT.split())
"""Reserved words that are functions without parentheses."""

_QUANTIFIERS: Final = {each.value: each for each in Quantifier}
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
    """What may stand behind an operand.

    Attributes:
        precedence: how much it binds; Calcite's numbers.
        parse: goes on at its first token, with the operand before it.
        operator: of those that only stand between two operands.
    """

    precedence: int
    parse: "Callable[[ExpressionParser, SqlExpression, Infix], SqlExpression]"
    operator: BinaryOperator | None = None


class ExpressionParser(FormParser):
    """Parses expressions by the precedence of their operators.

    :meth:`expression` parses an operand, and then takes operators for as long as they bind enough; each takes its
    right operand in the same way. A chain of operators that bind alike is a loop, so that ten thousand terms take no
    more of the stack than two; what nests is counted, and refused before the stack ends.
    """

    __slots__ = ()

    @abstractmethod
    def query_behind(self, first: QueryExpression) -> QueryExpression:
        """The query that goes on behind its first part, which stood in parentheses."""

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
            if found is left:  # a word that is a name here
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
        if kind in _PREFIXES:
            return self._unary()
        if kind in _FUNCTION_WORDS and (self.ahead() == "(" or kind not in _CONTEXT_WORDS):
            return self._keyword_call()
        return self._rare_operand(kind)

    def _rare_operand(self, kind: str) -> SqlExpression:
        start = self.start
        if kind in _CONTEXT_WORDS:
            name = self.advance()
            path = Path((Name(kind, start=start, end=name.end),), start=start, end=name.end)
            return Call(path, has_parentheses=False, start=start, end=name.end)
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
        operator, precedence = _PREFIXES[self.advance().kind]
        operand = self.expression(precedence)
        return Unary(operator, operand, start=start, end=operand.end)

    def _named(self) -> SqlExpression:
        """A column, a call, or a form that begins with a word that may be a name."""
        form = FORMS_OF_NAMES.get((self.kind, self.ahead()))
        if form is not None:
            return form(self)
        start = self.start
        if self.kind == "FINAL" and self.ahead() in ("FIRST", "LAST", *_FUNCTION_WORDS):
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
        """What is in parentheses: a query, an expression, a row of several, or an amount of a unit."""
        start = self.start
        self.advance()
        first = self._query_or_expression()
        items = [first]
        while self.accept(","):
            items.append(self.expression())
        self.expect(")")
        if len(items) > 1:
            return RowConstructor(tuple(items), False, start=start, end=self.end)
        if self.kind in INTERVAL_UNITS and not isinstance(first, ScalarQuery) and self._at_qualifier():
            qualifier = self.interval_qualifier()
            return IntervalExpression(first, qualifier, start=start, end=self.end)
        return first

    def _at_qualifier(self) -> bool:
        """Return whether a unit is one, and not the alias of what was in parentheses: plurals may be names."""
        return self.kind not in NAMES or self.ahead() in (")", "+", "-", "*", "PRECEDING", "FOLLOWING")

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
        """``NOT`` behind an operand: ``NOT IN``, ``NOT BETWEEN``, ``NOT LIKE``, ``NOT SUBMULTISET OF``."""
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
        high = self.expression(PATTERN)  # these operators bind from the right
        return Between(left, low, high, negated, symmetric, start=left.start, end=self.end)

    def _like(self, left: SqlExpression, _: Infix) -> SqlExpression:
        return self._is_like(left, False)

    def _is_like(self, left: SqlExpression, negated: bool) -> SqlExpression:
        word = self.advance().kind
        if word == "SIMILAR":
            self.expect("TO")
        kind = LikeKind.SIMILAR_TO if word == "SIMILAR" else LikeKind(word)
        pattern = self.expression(PATTERN)  # these operators bind from the right
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
        quantifier = self.choose_optional(_QUANTIFIERS) or Quantifier.ALL
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
        """``.name`` behind an operand that is no plain name; with parentheses it is a call with the operand first."""
        self.advance()
        name = self.name()
        if not self.at("("):
            return FieldAccess(left, name, start=left.start, end=self.end)
        return self._call_behind(Path((name,), start=name.start, end=name.end), left)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call_behind(self, function: Path, *before: SqlExpression) -> SqlExpression:
        """The call of a function whose name is read, up to ``OVER``."""
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
        call = Call(
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
        """What only ``ARRAY_AGG`` has inside its parentheses, behind its argument."""
        if str(function).upper() == "ARRAY_AGG":
            return self._null_treatment(), self.order_by()
        if self.kind == "ORDER":
            self.refuse(
                "only ARRAY_AGG has its order in its parentheses", "Write WITHIN GROUP (ORDER BY ...) behind it."
            )
        return None, ()

    def _arguments(self, may_be_none: bool) -> list[SqlExpression]:
        """What is in the parentheses of a call; ``COUNT(*)`` has a star for an argument."""
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

    def _over(self, call: Call) -> SqlExpression:
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

    def _bound(self) -> FrameBound:
        start = self.start
        if self.accept_all("CURRENT", "ROW"):
            return FrameBound(BoundKind.CURRENT_ROW, start=start, end=self.end)
        if self.at("UNBOUNDED") and self.ahead() in ("PRECEDING", "FOLLOWING"):
            self.advance()
            return FrameBound(BoundKind(f"UNBOUNDED {self.advance().kind}"), start=start, end=self.end)
        if not self._may_begin_expression():
            self.fail("CURRENT ROW", "UNBOUNDED PRECEDING", AN_EXPRESSION)
        offset = self.expression(IS)
        kind = self.choose({"PRECEDING": BoundKind.PRECEDING, "FOLLOWING": BoundKind.FOLLOWING})
        return FrameBound(kind, offset, start=start, end=self.end)

    def _may_begin_expression(self) -> bool:
        return self.kind in NAMES or self.kind in FORMS or self.kind in ("(", *_PREFIXES, *_FUNCTION_WORDS)

    def order_by(self) -> tuple[OrderItem, ...]:
        if not self.accept("ORDER"):
            return ()
        self.expect("BY")
        return self.some(self.order_item)

    def order_item(self) -> OrderItem:
        """An expression that rows are ordered by, with its direction."""
        expression = self.expression()
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        nulls_first = None
        if self.accept("NULLS"):
            nulls_first = self.choose({"FIRST": True, "LAST": False})
        return OrderItem(expression, descending, nulls_first, start=expression.start, end=self.end)


_QUERY_GOES_ON: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH"})
"""The words by which what was a query in parentheses turns out to be the first part of one."""

_PREFIXES: Final = {
    "NOT": (UnaryOperator.NOT, NOT),
    "-": (UnaryOperator.MINUS, SIGN),
    "+": (UnaryOperator.PLUS, SIGN),
}

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
"""By the kind of its first token, each operator that stands behind an operand."""
