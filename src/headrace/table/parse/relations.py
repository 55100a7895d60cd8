"""The relations of ``FROM``: tables, joins, functions, ``MATCH_RECOGNIZE``."""

from dataclasses import replace
from decimal import Decimal
from typing import Final

from headrace.table.parse.cursor import NAMES
from headrace.table.parse.expressions import ExpressionParser
from headrace.table.parse.forms import QUERY_WORDS
from headrace.table.parse.tokens import APPROXIMATE, DECIMAL, INTEGER, NAME, STRING
from headrace.table.parse.tree.expressions import (
    IntervalLiteral,
    RowConstructor,
    SqlCall,
    SqlExpression,
)
from headrace.table.parse.tree.node import Name, Path
from headrace.table.parse.tree.queries import (
    AfterMatch,
    AliasedRelation,
    DerivedTable,
    JoinRelation,
    MatchDefinition,
    MatchMeasure,
    MatchRecognize,
    MatchSubset,
    PatternAlternatives,
    PatternPermutation,
    PatternRepetition,
    PatternSequence,
    PatternVariable,
    Pivot,
    PivotAggregate,
    PivotValue,
    RowPattern,
    RowPatternExclusion,
    RowsPerMatch,
    SnapshotRelation,
    SqlHint,
    SqlJoinKind,
    SqlRelation,
    TableFunctionCall,
    TableReference,
    TableSample,
    UnnestRelation,
    Unpivot,
    UnpivotValue,
)

_JOIN_WORDS: Final = {
    "JOIN": SqlJoinKind.INNER,
    "INNER": SqlJoinKind.INNER,
    "LEFT": SqlJoinKind.LEFT,
    "RIGHT": SqlJoinKind.RIGHT,
    "FULL": SqlJoinKind.FULL,
    "CROSS": SqlJoinKind.CROSS,
}
_OUTER: Final = (SqlJoinKind.LEFT, SqlJoinKind.RIGHT, SqlJoinKind.FULL)
_GOES_ON: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH"})
_NUMBERS: Final = (INTEGER, DECIMAL, APPROXIMATE)
_QUANTIFIERS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class RelationParser(ExpressionParser):
    """Parses relations. Joins are left-associative; parentheses may contain a query or a join."""

    __slots__ = ()

    def relation(self, *, may_have_commas: bool = True) -> SqlRelation:
        """Tables with joins and commas between them."""
        left = self._table()
        while True:
            if may_have_commas and self.accept(","):
                right = self._table()
                left = JoinRelation(SqlJoinKind.COMMA, left, right, start=left.start, end=self.end)
            elif self.at("NATURAL") or self.at_any(_JOIN_WORDS):
                left = self._join(left)
            else:
                return left

    def _join(self, left: SqlRelation) -> SqlRelation:
        is_natural = self.accept("NATURAL")
        if not self.at_any(_JOIN_WORDS):
            self.fail(*_JOIN_WORDS)
        word = self.advance().kind
        kind = _JOIN_WORDS[word]
        if kind in _OUTER:
            self.accept("OUTER")
        if word != "JOIN":
            self.expect("JOIN")
        right = self._table()
        behind = self.token
        condition = self.expression() if self.accept("ON") else None
        using = self.names_in_parentheses() if condition is None and self.accept("USING") else ()
        if (is_natural or kind is SqlJoinKind.CROSS) and (condition is not None or using):
            what = "NATURAL JOIN" if is_natural else "CROSS JOIN"
            self.refuse(f"{what} takes no ON or USING", "Write JOIN ... ON.", behind)
        return JoinRelation(kind, left, right, condition, using, is_natural, start=left.start, end=self.end)

    # --- tables ------------------------------------------------------------------------------------------------------

    def _table(self) -> SqlRelation:
        found = self._primary()
        if self.at("PIVOT"):
            found = self._pivot(found)
        if self.at("UNPIVOT"):
            found = self._unpivot(found)
        if self.at("AS") or self.at_name():
            token = self.token
            self.accept("AS")
            alias = self.name()
            if isinstance(found, JoinRelation):
                self.refuse("a join in parentheses has no alias", "Give its tables aliases.", token)
            found = AliasedRelation(found, alias, self.optional_names(), start=found.start, end=self.end)
            if self.at("MATCH_RECOGNIZE"):
                found = self._alias_of_match(self._match(found))
        return self._sample(found) if self.at("TABLESAMPLE") else found

    def _alias_of_match(self, match: SqlRelation) -> SqlRelation:
        if not (self.accept("AS") or self.at_name()):
            return match
        return AliasedRelation(match, self.name(), self.optional_names(), start=match.start, end=self.end)

    def _primary(self) -> SqlRelation:
        start = self.start
        if self.at_name():
            return self._named_table()
        is_lateral = self.accept("LATERAL")
        if self.at("("):
            found = self._in_parentheses(start, is_lateral)
            return self._match(found) if self.at("MATCH_RECOGNIZE") else found
        if self.accept("UNNEST"):
            self.expect("(")
            operands = self.some(self._query_or_expression)
            self.expect(")")
            ordinality = self.accept_all("WITH", "ORDINALITY")
            return UnnestRelation(operands, ordinality, start=start, end=self.end)
        if self.accept("TABLE"):
            self.expect("(")
            call = self._table_call()
            self.expect(")")
            return TableFunctionCall(call, is_lateral, start=start, end=self.end)
        if is_lateral and self.at_name():
            self.refuse(
                f"expected '(' or TABLE behind LATERAL, found '{self.token.text}'", "Write LATERAL TABLE(f(x))."
            )
        return self.fail(NAME, "(", "TABLE", "LATERAL", "UNNEST")

    def _named_table(self) -> SqlRelation:
        path = self.path()
        if self.at("("):
            call = self._plain_call(path)
            return TableFunctionCall(call, start=path.start, end=self.end)
        found: SqlRelation = TableReference(path, self.hints(), start=path.start, end=self.end)
        if self.accept_all("FOR", "SYSTEM_TIME"):
            self.expect("AS", "OF")
            time = self.expression()
            found = SnapshotRelation(found, time, start=path.start, end=self.end)
        return self._match(found) if self.at("MATCH_RECOGNIZE") else found

    def _table_call(self) -> SqlCall:
        if not self.at_name():
            self.fail(NAME)
        return self._plain_call(self.path())

    def _plain_call(self, function: Path) -> SqlCall:
        """A call of a table function, without the clauses of aggregates."""
        self.expect("(")
        arguments = [] if self.at(")") else self.some(self._argument)
        self.expect(")")
        return SqlCall(function, tuple(arguments), start=function.start, end=self.end)

    def procedure_call(self) -> SqlCall:
        """A call of a procedure."""
        return self._table_call()

    def _in_parentheses(self, start: int, is_lateral: bool) -> SqlRelation:
        self.deeper()
        begin = self.advance()
        if self.at_any(QUERY_WORDS) and not (self.at("TABLE") and self.ahead() == "("):
            found: SqlRelation = DerivedTable(self.query(), is_lateral, start=start, end=self.end)
        else:
            found = self.relation(may_have_commas=False)
            if isinstance(found, DerivedTable) and not found.is_lateral and self.at_any(_GOES_ON):
                query = self.query_behind(found.query)
                found = DerivedTable(query, is_lateral, start=start, end=self.end)
        if not isinstance(found, DerivedTable | JoinRelation):
            self.refuse("parentheses hold a query or a join", "Leave the parentheses out.", begin)
        self.expect(")")
        self._depth -= 1
        return replace(found, start=start, end=self.end) if isinstance(found, DerivedTable) else found

    def _sample(self, relation: SqlRelation) -> SqlRelation:
        self.advance()
        is_bernoulli = self.choose({"BERNOULLI": True, "SYSTEM": False})
        self.expect("(")
        if not self.at_any(_NUMBERS):
            self.fail(INTEGER)
        number = self.advance()
        percentage = Decimal(number.text)
        if percentage > 100:
            self.refuse("TABLESAMPLE takes a percentage from 0 to 100", token=number)
        self.expect(")")
        seed = None
        if self.accept("REPEATABLE"):
            self.expect("(")
            sign = -1 if self.accept("-") else 1
            seed = sign * self.integer()
            self.expect(")")
        return TableSample(relation, is_bernoulli, percentage, seed, start=relation.start, end=self.end)

    # --- hints -------------------------------------------------------------------------------------------------------

    def hints(self) -> tuple[SqlHint, ...]:
        """Hints between ``/*+`` and ``*/``, or none."""
        if not self.accept("/*+"):
            return ()
        found = self.some(self._hint)
        self.expect("*/")
        return found

    def _hint(self) -> SqlHint:
        name = self.name()
        options: tuple[tuple[str, str], ...] = ()
        items: tuple[str, ...] = ()
        if self.accept("("):
            if self.ahead() == "=":
                options = self.some(self._hint_option)
            elif not self.at(")"):
                items = self.some(self._hint_item)
            self.expect(")")
        return SqlHint(name, options, items, start=name.start, end=self.end)

    def _hint_option(self) -> tuple[str, str]:
        key = self.text() if self.at(STRING) else self.name().text
        self.expect("=")
        return key, self.text()

    def _hint_item(self) -> str:
        if self.at(STRING):
            return self.text()
        sign = "-" if self.accept("-") else ""
        return f"{sign}{self.advance().text}" if self.at_any(_NUMBERS) else self.name().text

    # --- PIVOT -------------------------------------------------------------------------------------------------------

    def _one_or_names(self) -> tuple[Name, ...]:
        return self.names_in_parentheses() if self.at("(") else (self.name(),)

    def _pivot(self, relation: SqlRelation) -> SqlRelation:
        self.expect("PIVOT", "(")
        aggregates = self.some(self._pivot_aggregate)
        self.expect("FOR")
        axes = self._one_or_names()
        self.expect("IN", "(")
        values = () if self.at(")") else self.some(self._pivot_value)
        self.expect(")", ")")
        return Pivot(relation, aggregates, axes, values, start=relation.start, end=self.end)

    def _optional_alias(self) -> Name | None:
        return self.name() if self.accept("AS") or self.at_name() else None

    def _pivot_aggregate(self) -> PivotAggregate:
        call = self.expression()
        return PivotAggregate(call, self._optional_alias(), start=call.start, end=self.end)

    def _pivot_value(self) -> PivotValue:
        start = self.start
        values = self.row()
        return PivotValue(values, self._optional_alias(), start=start, end=self.end)

    def row(self) -> tuple[SqlExpression, ...]:
        """A row of ``VALUES``: in parentheses, with ``ROW`` before them, or one value without any."""
        value = self._row_value()
        return value.items if isinstance(value, RowConstructor) else (value,)

    def _row_value(self) -> SqlExpression:
        if self.at("(") or self.at_all("ROW", "("):
            start = self.start
            self.accept("ROW")
            items = self.in_parentheses(self._row_item)
            return RowConstructor(items, start=start, end=self.end)
        return self.expression()

    def _row_item(self) -> SqlExpression:
        return self._plain_argument(self.kind) if self.at("DEFAULT") else self._query_or_expression()

    def _unpivot(self, relation: SqlRelation) -> SqlRelation:
        self.advance()
        include = self.accept_all("INCLUDE", "NULLS")
        if not include:
            self.accept_all("EXCLUDE", "NULLS")
        self.expect("(")
        measures = self._one_or_names()
        self.expect("FOR")
        axes = self._one_or_names()
        self.expect("IN")
        values = self.in_parentheses(self._unpivot_value)
        self.expect(")")
        return Unpivot(relation, measures, axes, values, include, start=relation.start, end=self.end)

    def _unpivot_value(self) -> UnpivotValue:
        start = self.start
        columns = self._one_or_names()
        values = self.row() if self.accept("AS") else ()
        return UnpivotValue(columns, values, start=start, end=self.end)

    # --- MATCH_RECOGNIZE ---------------------------------------------------------------------------------------------

    def _match(self, relation: SqlRelation) -> SqlRelation:
        self.expect("MATCH_RECOGNIZE", "(")
        partition = self.some(self.expression) if self._accept_by("PARTITION") else ()
        order = self.order_by()
        measures = self.some(self._measure) if self.accept("MEASURES") else ()
        all_rows = self._rows_per_match()
        option = self._all_rows_option() if all_rows else None
        after, variable = self._after_match() if self.at("AFTER") else (None, None)
        self.expect("PATTERN", "(")
        at_begin = self.accept("^")
        pattern = self._alternatives()
        at_end = self._accept_dollar()
        self.expect(")")
        within = self._within() if self.accept("WITHIN") else None
        subsets = self.some(self._subset) if self.accept("SUBSET") else ()
        self.expect("DEFINE")
        definitions = self.some(self._definition)
        self.expect(")")
        return MatchRecognize(
            relation,
            partition,
            order,
            measures,
            all_rows,
            option,
            after,
            variable,
            pattern,
            at_begin,
            at_end,
            within,
            subsets,
            definitions,
            start=relation.start,
            end=self.end,
        )

    def _accept_by(self, word: str) -> bool:
        if not self.accept(word):
            return False
        self.expect("BY")
        return True

    def _measure(self) -> MatchMeasure:
        expression = self.expression()
        self.expect("AS")
        return MatchMeasure(expression, self.name(), start=expression.start, end=self.end)

    def _rows_per_match(self) -> bool | None:
        if self.accept("ONE"):
            self.expect("ROW", "PER", "MATCH")
            return False
        if self.accept("ALL"):
            self.expect("ROWS", "PER", "MATCH")
            return True
        return None

    def _all_rows_option(self) -> RowsPerMatch | None:
        for option in (RowsPerMatch.SHOW_EMPTY, RowsPerMatch.OMIT_EMPTY):
            if self.accept_all(*option.value.split()):
                return option
        if not self.accept("WITH"):
            return None
        if self.token.text.upper() != "UNMATCHED":
            self.fail("UNMATCHED")
        self.advance()
        self.expect("ROWS")
        return RowsPerMatch.WITH_UNMATCHED

    def _after_match(self) -> tuple[AfterMatch, Name | None]:
        self.expect("AFTER", "MATCH", "SKIP")
        if self.accept("PAST"):
            self.expect("LAST", "ROW")
            return AfterMatch.PAST_LAST_ROW, None
        self.expect("TO")
        if self.accept_all("NEXT", "ROW"):
            return AfterMatch.NEXT_ROW, None
        if self.at("FIRST") and self.ahead() in NAMES:
            self.advance()
            return AfterMatch.FIRST, self.name()
        if self.at("LAST") and self.ahead() in NAMES:
            self.advance()
        return AfterMatch.LAST, self.name()

    def _accept_dollar(self) -> bool:
        """Accept ``$``, which is a letter to the tokenizer, and so a name."""
        if self.token.text != "$":
            return False
        self.advance()
        return True

    def _within(self) -> IntervalLiteral:
        token = self.token
        if not self.at("INTERVAL"):
            self.fail("INTERVAL")
        found = self.interval()
        if not isinstance(found, IntervalLiteral):
            self.refuse("WITHIN takes an interval with a text in quotes", "Write INTERVAL '10' MINUTE.", token)
        return found

    def _subset(self) -> MatchSubset:
        name = self.name()
        self.expect("=")
        return MatchSubset(name, self.names_in_parentheses(), start=name.start, end=self.end)

    def _definition(self) -> MatchDefinition:
        variable = self.name()
        self.expect("AS")
        return MatchDefinition(variable, self.expression(), start=variable.start, end=self.end)

    def _alternatives(self) -> RowPattern:
        self.deeper()
        parts = [self._sequence()]
        while self.accept("|"):
            parts.append(self._sequence())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else PatternAlternatives(tuple(parts), start=parts[0].start, end=self.end)

    def _sequence(self) -> RowPattern:
        parts = [self._repetition()]
        while self.token.text != "$" and (self.at_name() or self.at_any(_PATTERN_BEGINS)):
            parts.append(self._repetition())
        return parts[0] if len(parts) == 1 else PatternSequence(tuple(parts), start=parts[0].start, end=self.end)

    def _repetition(self) -> RowPattern:
        part = self._pattern_part()
        limits = self._repetitions()
        if limits is None:
            return part
        is_reluctant = self.accept("?")
        return PatternRepetition(part, *limits, is_reluctant, start=part.start, end=self.end)

    def _repetitions(self) -> tuple[int | None, int | None] | None:
        if not self.at("{"):
            return self.choose_optional(_QUANTIFIERS)
        if self.ahead() == "-":
            return None
        self.advance()
        least = None if self.at(",") else self.integer()
        most = least
        if self.accept(","):
            most = self.integer() if least is None or self.at(INTEGER) else None
        self.expect("}")
        return least, most

    def _pattern_part(self) -> RowPattern:
        start = self.start
        if self.accept("("):
            inner = self._alternatives()
            self.expect(")")
            return inner
        if self.accept("{"):
            self.expect("-")
            inner = self._alternatives()
            self.expect("-", "}")
            return RowPatternExclusion(inner, start=start, end=self.end)
        if self.accept("PERMUTE"):
            return PatternPermutation(self.in_parentheses(self._alternatives), start=start, end=self.end)
        if self.token.text == "$" or not self.at_name():
            self.fail("a variable of the pattern", "(")
        name = self.name()
        return PatternVariable(name, start=start, end=self.end)


_PATTERN_BEGINS: Final = ("(", "{", "PERMUTE")
