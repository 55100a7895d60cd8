"""Literals, and functions with keywords between their arguments."""

from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NoReturn

from headrace.table.parse.diagnosis import AN_EXPRESSION
from headrace.table.parse.precedence import PATTERN
from headrace.table.parse.tokens import (
    APPROXIMATE,
    BINARY,
    DECIMAL,
    ESCAPED,
    INTEGER,
    NAME,
    STRING,
    UNICODE,
    Token,
    bytes_of,
    text_of,
    unicode_of,
)
from headrace.table.parse.tree.expressions import (
    BinaryLiteral,
    BooleanLiteral,
    CaseBranch,
    CaseExpression,
    CastExpression,
    CollectionConstructor,
    CollectionQuery,
    ConstructorKind,
    DecimalLiteral,
    DoubleLiteral,
    DynamicParameter,
    Identifier,
    IntegerLiteral,
    IntervalExpression,
    IntervalLiteral,
    NullLiteral,
    OrderItem,
    SqlCall,
    SqlExpression,
    StringLiteral,
    TemporalKind,
    TemporalLiteral,
    Trim,
    TrimSide,
    UnitArgument,
)
from headrace.table.parse.tree.json import (
    JsonArray,
    JsonBehavior,
    JsonBehaviorKind,
    JsonEntry,
    JsonFunction,
    JsonObject,
    JsonPathCall,
    JsonWrapper,
)
from headrace.table.parse.tree.node import Name, Path, QueryExpression
from headrace.table.parse.types import UNITS, TypeParser

STRINGS: Final = (STRING, UNICODE, ESCAPED)
QUERY_WORDS: Final = frozenset({"SELECT", "VALUES", "VALUE", "WITH", "TABLE"})
"""The keywords with which a query starts, if not with a parenthesis."""

_BEHAVIORS: Final = {
    kind.value: kind
    for kind in (
        JsonBehaviorKind.ERROR,
        JsonBehaviorKind.NULL,
        JsonBehaviorKind.DEFAULT,
        JsonBehaviorKind.TRUE,
        JsonBehaviorKind.FALSE,
        JsonBehaviorKind.UNKNOWN,
    )
}
_OF_EXISTS: Final = ("TRUE", "FALSE", "UNKNOWN", "ERROR")
_OF_VALUE: Final = ("ERROR", "NULL", "DEFAULT")
_OF_QUERY: Final = ("ERROR", "NULL", "EMPTY")


class FormParser(TypeParser):
    """Parses expressions that start with a keyword or a literal, by the table :data:`FORMS`.

    A form is a method that starts at its first token and ends after its last one.
    """

    __slots__ = ()

    @abstractmethod
    def expression(self, least: int = 0) -> SqlExpression:
        """An expression of operators with at least a precedence."""

    @abstractmethod
    def query(self) -> QueryExpression:
        """A query with all its clauses."""

    @abstractmethod
    def order_by(self) -> tuple[OrderItem, ...]:
        """``ORDER BY`` and its items, or nothing."""

    # --- literals ----------------------------------------------------------------------------------------------------

    def integer_literal(self) -> SqlExpression:
        token = self.advance()
        return IntegerLiteral(int(token.text), start=token.start, end=token.end)

    def decimal_literal(self) -> SqlExpression:
        token = self.advance()
        return DecimalLiteral(Decimal(token.text), start=token.start, end=token.end)

    def double_literal(self) -> SqlExpression:
        token = self.advance()
        return DoubleLiteral(token.text, start=token.start, end=token.end)

    def true(self) -> SqlExpression:
        return self._boolean(True)

    def false(self) -> SqlExpression:
        return self._boolean(False)

    def unknown(self) -> SqlExpression:
        return self._boolean(None)

    def _boolean(self, value: bool | None) -> SqlExpression:
        token = self.advance()
        return BooleanLiteral(value, start=token.start, end=token.end)

    def null(self) -> SqlExpression:
        token = self.advance()
        return NullLiteral(start=token.start, end=token.end)

    def parameter(self) -> SqlExpression:
        token = self.advance()
        return DynamicParameter(start=token.start, end=token.end)

    def string_literal(self) -> SqlExpression:
        """A string; strings that follow on further lines continue it."""
        first = self.advance()
        parts = [text_of(first), *self._continued()]
        text = "".join(parts)
        if first.kind == UNICODE:
            text = self._unescaped(text, first)
        return StringLiteral(text, start=first.start, end=self.end)

    def _continued(self) -> list[str]:
        parts = []
        while self.at(STRING):
            if "\n" not in self.source.text[self.end : self.start]:
                self.refuse("a string continues on another line only", "Join strings by ||.")
            parts.append(text_of(self.advance()))
        return parts

    def _unescaped(self, text: str, first: Token) -> str:
        escape = "\\"
        if self.accept("UESCAPE"):
            escape = self.text()
            if len(escape) != 1 or escape in "+\"'" or escape.isspace() or escape.isalnum():
                self.refuse("the letter behind UESCAPE is one that is not a digit, quote or space", token=first)
        found = unicode_of(text, escape)
        if found is None:
            self.refuse(f"{escape} in a text U&'...' stands before four hexadecimal digits", token=first)
        return found

    def binary_literal(self) -> SqlExpression:
        first = self.advance()
        digits = "".join([first.text[2:-1], *self._continued()])
        value = bytes_of(digits)
        if value is None:
            self.refuse("a binary string has two hexadecimal digits a byte", token=first)
        return BinaryLiteral(value, start=first.start, end=self.end)

    def temporal(self) -> SqlExpression:
        """``DATE '2024-02-29'``, or a call of ``DATE(...)``."""
        start = self.start
        kind = TemporalKind(self.advance().kind)
        if kind is TemporalKind.TIMESTAMP and self.accept_all("WITH", "LOCAL", "TIME", "ZONE"):
            kind = TemporalKind.TIMESTAMP_LTZ
        elif self.at("("):
            return self.call_of(kind.value, start)
        return TemporalLiteral(kind, self.text(), start=start, end=self.end)

    def escape_of_jdbc(self) -> SqlExpression:
        """``{d '2024-02-29'}``, ``{t '10:00:00'}`` and ``{ts '2024-02-29 10:00:00'}``."""
        start, word = self.start, self.following.text.lower()
        if word not in _JDBC:
            self.refuse_operand()
        self.advance()
        self.advance()
        text = self.text()
        self.expect("}")
        return TemporalLiteral(_JDBC[word], text, start=start, end=self.end)

    def interval(self) -> SqlExpression:
        """``INTERVAL '1' DAY``, ``INTERVAL 1 DAY``, ``INTERVAL n DAY``, ``INTERVAL (n + 1) DAY``."""
        start = self.start
        self.advance()
        negative = self.accept("-") or (self.accept("+") and False)
        if self.at(STRING):
            text = self.text()
            qualifier = self.interval_qualifier()
            return IntervalLiteral(text, qualifier, negative, start=start, end=self.end)
        operand = self._interval_operand()
        qualifier = self.interval_qualifier(may_have_two=False)
        return IntervalExpression(operand, qualifier, negative, start=start, end=self.end)

    def _interval_operand(self) -> SqlExpression:
        if self.accept("("):
            operand = self.expression()
            self.expect(")")
            return operand
        if self.at_any(_NUMBERS):
            return _NUMBERS[self.kind](self)
        if not self.at_name():
            self.fail(STRING, INTEGER, NAME, "(")
        path = self.path()
        return Identifier(path.names, start=path.start, end=path.end)

    # --- general forms -----------------------------------------------------------------------------------------------

    def call_of(self, name: str, start: int, *arguments: SqlExpression) -> SqlCall:
        """A call of a function that is a keyword, with the arguments in parentheses."""
        found = [*arguments]
        self.expect("(")
        if not self.at(")"):
            found.extend(self.some(self.expression))
        self.expect(")")
        return self._call(name, start, *found)

    def _call(self, name: str, start: int, *arguments: SqlExpression) -> SqlCall:
        function = Path((Name(name, start=start, end=start + len(name)),), start=start, end=start + len(name))
        return SqlCall(function, arguments, start=start, end=self.end)

    def case(self) -> SqlExpression:
        start = self.start
        self.advance()
        operand = None if self.at("WHEN") else self.expression()
        branches = [self._when(operand is not None)]
        while self.at("WHEN"):
            branches.append(self._when(operand is not None))
        otherwise = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return CaseExpression(operand, tuple(branches), otherwise, start=start, end=self.end)

    def _when(self, may_be_several: bool) -> CaseBranch:
        start = self.start
        self.expect("WHEN")
        conditions = self.some(self.expression) if may_be_several else (self.expression(),)
        self.expect("THEN")
        result = self.expression()
        return CaseBranch(conditions, result, start=start, end=self.end)

    def cast(self) -> SqlExpression:
        start = self.start
        is_try = self.advance().kind == "TRY_CAST"
        self.expect("(")
        operand = self.expression()
        self.expect("AS")
        kind = self.interval_type() if self.at("INTERVAL") else self.data_type(may_say_null=False)
        self.expect(")")
        return CastExpression(operand, kind, is_try, start=start, end=self.end)

    def constructor(self) -> SqlExpression:
        """``ARRAY[...]`` or ``ARRAY(query)``, and the same of maps and multisets."""
        start = self.start
        kind = ConstructorKind(self.advance().kind)
        if self.accept("("):
            query = self.query()
            self.expect(")")
            return CollectionQuery(kind, query, start=start, end=self.end)
        self.expect("[")
        items = () if kind is not ConstructorKind.MULTISET and self.at("]") else self.some(self.expression)
        self.expect("]")
        return CollectionConstructor(kind, items, start=start, end=self.end)

    # --- functions with words ----------------------------------------------------------------------------------------

    def unit_argument(self) -> SqlExpression:
        """A unit, as an argument."""
        token = self.token
        return UnitArgument(self.unit(), start=token.start, end=token.end)

    def extract(self) -> SqlExpression:
        start = self.start
        self.advance()
        self.expect("(")
        unit = self.unit_argument()
        self.expect("FROM")
        operand = self.expression()
        self.expect(")")
        return self._call("EXTRACT", start, unit, operand)

    def position(self) -> SqlExpression:
        """``POSITION(a IN b [FROM c])``; ``a`` cannot be a condition, whose ``IN`` would be ambiguous."""
        start = self.start
        self.advance()
        self.expect("(")
        arguments = [self.expression(PATTERN + 1)]
        self.expect("IN")
        arguments.append(self.expression())
        if self.accept("FROM"):
            arguments.append(self.expression())
        self.expect(")")
        return self._call("POSITION", start, *arguments)

    def overlay(self) -> SqlExpression:
        start = self.start
        self.advance()
        self.expect("(")
        arguments = [self.expression()]
        for word in ("PLACING", "FROM"):
            self.expect(word)
            arguments.append(self.expression())
        if self.accept("FOR"):
            arguments.append(self.expression())
        self.expect(")")
        return self._call("OVERLAY", start, *arguments)

    def substring(self) -> SqlExpression:
        start = self.start
        self.advance()
        self.expect("(")
        arguments = [self.expression()]
        if not (self.accept("FROM") or self.accept(",")):
            self.fail("FROM", ",")
        arguments.append(self.expression())
        if self.accept("FOR") or self.accept(","):
            arguments.append(self.expression())
        self.expect(")")
        return self._call("SUBSTRING", start, *arguments)

    def translate(self) -> SqlExpression:
        """``TRANSLATE(a, b, c)``, and ``CONVERT(a USING charset)``, which Flink parses and then refuses."""
        start = self.start
        name = self.advance().kind
        self.expect("(")
        arguments = [self.expression()]
        if self.accept("USING"):
            charset = self.name()
            arguments.append(Identifier((charset,), start=charset.start, end=charset.end))
        else:
            while self.accept(","):
                arguments.append(self.expression())
        self.expect(")")
        return self._call(name, start, *arguments)

    def trim(self) -> SqlExpression:
        start = self.start
        self.advance()
        self.expect("(")
        side = self.choose_optional(_SIDES)
        characters = None if side is not None and self.at("FROM") else self.expression()
        if side is None and characters is not None and not self.at("FROM"):
            operand, characters = characters, None
        else:
            self.expect("FROM")
            operand = self.expression()
        self.expect(")")
        return Trim(side or TrimSide.BOTH, characters, operand, start=start, end=self.end)

    def rounded(self) -> SqlExpression:
        """``FLOOR(a)`` or ``FLOOR(a TO unit)``, and the same of ``CEIL``."""
        start = self.start
        name = self.advance().kind
        self.expect("(")
        arguments = [self.expression()]
        if self.accept("TO"):
            arguments.append(self.unit_argument())
        self.expect(")")
        return self._call("CEIL" if name == "CEILING" else name, start, *arguments)

    def unit_first(self) -> SqlExpression:
        """``TIMESTAMPADD(unit, n, t)`` and ``TIMESTAMPDIFF(unit, t1, t2)``."""
        start = self.start
        name = self.advance().kind
        self.expect("(")
        unit = self.unit_argument()
        self.expect(",")
        first = self.expression()
        self.expect(",")
        second = self.expression()
        self.expect(")")
        return self._call(name, start, unit, first, second)

    def unit_last(self) -> SqlExpression:
        """``DATE_DIFF(a, b, unit)`` and its siblings, which Flink parses and then refuses."""
        start = self.start
        name = self.advance().kind
        self.expect("(")
        arguments = [self.expression()]
        while self.accept(","):
            is_unit = self.at_any(UNITS) and self.ahead() == ")"
            arguments.append(self.unit_argument() if is_unit else self.expression())
        self.expect(")")
        return self._call(name, start, *arguments)

    # --- JSON --------------------------------------------------------------------------------------------------------

    def json_path_call(self) -> SqlExpression:
        start = self.start
        function = JsonFunction(self.advance().kind)
        self.expect("(")
        operand = self.expression()
        self.expect(",")
        path = self.expression()
        if self.at("PASSING"):
            self.refuse("paths of JSON take no variables", "Make the path with || of its parts.")
        returning = None
        if function is not JsonFunction.EXISTS and self.accept("RETURNING"):
            returning = self.data_type(may_say_null=False)
        wrapper = self._wrapper() if function is JsonFunction.QUERY else None
        on_empty, on_error = self._json_behaviors(function)
        self.expect(")")
        return JsonPathCall(function, operand, path, returning, wrapper, on_empty, on_error, start=start, end=self.end)

    def _wrapper(self) -> JsonWrapper | None:
        if self.accept("WITHOUT"):
            wrapper = JsonWrapper.WITHOUT
        elif self.accept("WITH"):
            conditional = self.accept("CONDITIONAL")
            if not conditional:
                self.accept("UNCONDITIONAL")
            wrapper = JsonWrapper.CONDITIONAL if conditional else JsonWrapper.UNCONDITIONAL
        else:
            return None
        self.accept("ARRAY")
        self.expect("WRAPPER")
        return wrapper

    def _json_behaviors(self, function: JsonFunction) -> tuple[JsonBehavior | None, JsonBehavior | None]:
        first = {JsonFunction.EXISTS: _OF_EXISTS, JsonFunction.VALUE: _OF_VALUE, JsonFunction.QUERY: _OF_QUERY}[
            function
        ]
        found: dict[str, JsonBehavior] = {}
        while self.at_any(first):
            token = self.token
            behavior = self._json_behavior()
            self.expect("ON")
            if function is not JsonFunction.EXISTS and self.accept("EMPTY"):
                clause = "EMPTY"
            else:
                self.expect("ERROR")
                clause = "ERROR"
            if clause in found:
                self.refuse(f"ON {clause} stands there twice", token=token)
            found[clause] = behavior
        return found.get("EMPTY"), found.get("ERROR")

    def _json_behavior(self) -> JsonBehavior:
        start = self.start
        if self.accept("EMPTY"):
            kind = self.choose({"ARRAY": JsonBehaviorKind.EMPTY_ARRAY, "OBJECT": JsonBehaviorKind.EMPTY_OBJECT})
        else:
            kind = self.choose(_BEHAVIORS)
        default = self.expression() if kind is JsonBehaviorKind.DEFAULT else None
        return JsonBehavior(kind, default, start=start, end=self.end)

    def json_object(self) -> SqlExpression:
        start = self.start
        is_aggregate = self.advance().kind == "JSON_OBJECTAGG"
        self.expect("(")
        entries: tuple[JsonEntry, ...] = ()
        if is_aggregate:
            entries = (self._json_entry(),)
        elif not (self.at(")") or self._at_null_clause()):
            entries = self.some(self._json_entry)
        absent = self._json_nulls()
        self.expect(")")
        return JsonObject(entries, absent, is_aggregate, start=start, end=self.end)

    def _json_entry(self) -> JsonEntry:
        start = self.start
        if self.at("KEY") and self.ahead() not in ("VALUE", ":", ".", "("):
            self.advance()
        key = self.expression()
        if not (self.accept("VALUE") or self.accept(":")):
            self.fail("VALUE", ":")
        value = self.expression()
        return JsonEntry(key, value, start=start, end=self.end)

    def json_array(self) -> SqlExpression:
        start = self.start
        is_aggregate = self.advance().kind == "JSON_ARRAYAGG"
        self.expect("(")
        items: tuple[SqlExpression, ...] = ()
        if is_aggregate:
            items = (self.expression(),)
        elif not (self.at(")") or self._at_null_clause()):
            items = self.some(self.expression)
        order = self.order_by() if is_aggregate else ()
        absent = self._json_nulls()
        self.expect(")")
        if is_aggregate and self.accept_all("WITHIN", "GROUP"):
            self.expect("(")
            order = self.order_by() or self.fail("ORDER")
            self.expect(")")
        return JsonArray(items, absent, is_aggregate, order, start=start, end=self.end)

    def _at_null_clause(self) -> bool:
        return self.at_all("NULL", "ON", "NULL") or self.at_all("ABSENT", "ON", "NULL")

    def _json_nulls(self) -> bool | None:
        if self.accept_all("NULL", "ON", "NULL"):
            return False
        return True if self.accept_all("ABSENT", "ON", "NULL") else None

    # --- errors ------------------------------------------------------------------------------------------------------

    def refuse_operand(self) -> NoReturn:
        """Raise the error of a token with which no expression starts."""
        self.fail(AN_EXPRESSION)


_JDBC: Final = {"d": TemporalKind.DATE, "t": TemporalKind.TIME, "ts": TemporalKind.TIMESTAMP}

_SIDES: Final = {side.value: side for side in TrimSide}

_NUMBERS: Final[dict[str, Callable[[FormParser], SqlExpression]]] = {
    INTEGER: FormParser.integer_literal,
    DECIMAL: FormParser.decimal_literal,
    APPROXIMATE: FormParser.double_literal,
}

FORMS: Final[dict[str, Callable[[FormParser], SqlExpression]]] = {
    **_NUMBERS,
    **dict.fromkeys(STRINGS, FormParser.string_literal),
    BINARY: FormParser.binary_literal,
    "TRUE": FormParser.true,
    "FALSE": FormParser.false,
    "UNKNOWN": FormParser.unknown,
    "NULL": FormParser.null,
    "?": FormParser.parameter,
    **dict.fromkeys(("DATE", "TIME", "TIMESTAMP"), FormParser.temporal),
    "INTERVAL": FormParser.interval,
    "{": FormParser.escape_of_jdbc,
    "CASE": FormParser.case,
    **dict.fromkeys(("CAST", "TRY_CAST"), FormParser.cast),
    **dict.fromkeys(("ARRAY", "MULTISET"), FormParser.constructor),
    "EXTRACT": FormParser.extract,
    "POSITION": FormParser.position,
    "OVERLAY": FormParser.overlay,
    "SUBSTRING": FormParser.substring,
    **dict.fromkeys(("TRANSLATE", "CONVERT"), FormParser.translate),
    "TRIM": FormParser.trim,
    **dict.fromkeys(("FLOOR", "CEIL", "CEILING"), FormParser.rounded),
    **dict.fromkeys(("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"), FormParser.json_path_call),
    **dict.fromkeys(("JSON_OBJECT", "JSON_OBJECTAGG"), FormParser.json_object),
    **dict.fromkeys(("JSON_ARRAY", "JSON_ARRAYAGG"), FormParser.json_array),
    **dict.fromkeys(
        ("TIMESTAMP_DIFF", "TIME_DIFF", "DATE_TRUNC", "TIMESTAMP_TRUNC", "TIME_TRUNC"), FormParser.unit_last
    ),
}
"""Parsers of expressions by the kind of the first token alone."""

FORMS_OF_NAMES: Final[dict[tuple[str, str], Callable[[FormParser], SqlExpression]]] = {
    ("MAP", "["): FormParser.constructor,
    ("MAP", "("): FormParser.constructor,
    ("TIMESTAMPADD", "("): FormParser.unit_first,
    ("TIMESTAMPDIFF", "("): FormParser.unit_first,
    ("DATE_DIFF", "("): FormParser.unit_last,
    ("DATETIME_DIFF", "("): FormParser.unit_last,
}
"""Parsers of expressions by the kinds of the first two tokens, for keywords that can also be names."""
