"""Messages of syntax errors: what was expected, what was found, and advice."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from headrace.table.parse.keywords import RESERVED
from headrace.table.parse.tokens import (
    APPROXIMATE,
    BAD,
    BINARY,
    DECIMAL,
    END,
    ESCAPED,
    INTEGER,
    NAME,
    QUOTED,
    STRING,
    UNICODE,
    Token,
)

AN_EXPRESSION: Final = "an expression"
AN_OPERATOR: Final = "an operator"
A_QUERY: Final = "a query"
A_STATEMENT: Final = "a statement"
A_TYPE: Final = "a data type"
A_UNIT: Final = "a unit of time"
A_UNIT_OF_INTERVALS: Final = "a unit of time, as in INTERVAL '5' SECOND"

SUMMARIES: Final = (A_STATEMENT, A_QUERY, AN_EXPRESSION, A_TYPE, A_UNIT, A_UNIT_OF_INTERVALS)
"""Summaries, each clearer than the list of tokens with which it can start."""

_MOST: Final = 6
"""The most expected tokens that an error lists."""

_FEW: Final = 3
"""With at most so many expected tokens, the rare ones are listed as well."""

_LIKENESS: Final = 0.7
_LONGEST: Final = 30

_WORDS: Final = {
    NAME: "a name",
    STRING: "a text in quotes",
    INTEGER: "a whole number",
    END: "the end of the statement",
    "GROUP": "GROUP BY",
    "ORDER": "ORDER BY",
    "PARTITION": "PARTITION BY",
    "FOR": "FOR SYSTEM_TIME",
}

_SAID_BY: Final = {
    "JOIN": ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"),
    "UNION": ("INTERSECT", "EXCEPT"),
    "LIMIT": ("OFFSET", "FETCH"),
}
"""Tokens that are not listed where another one is."""

_RARE: Final = frozenset(
    {"PIVOT", "UNPIVOT", "TABLESAMPLE", "EXTEND", "MATCH_RECOGNIZE", "FOR", "/*+", "[", "(", ".", "AS", AN_OPERATOR}
)
"""Tokens that are listed only where few others are expected."""

_HIDDEN: Final = frozenset({DECIMAL, APPROXIMATE, QUOTED, UNICODE, ESCAPED, BINARY, "?"})
"""Tokens that are implied by others that are expected with them."""

_LITERALS: Final = {
    INTEGER: "the number",
    DECIMAL: "the number",
    APPROXIMATE: "the number",
    STRING: "the text",
    UNICODE: "the text",
    ESCAPED: "the text",
    BINARY: "the binary string",
}

_TYPES_OF_LITERALS: Final = frozenset({"DATE", "TIME", "TIMESTAMP"})
"""Reserved words that a text follows, as in ``DATE '2024-02-29'``, and that many columns are called."""

_CLAUSES: Final = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "AS", END, ")"})
"""Clauses that often follow a superfluous comma."""

_STATEMENTS: Final = frozenset({"SELECT", "INSERT", "CREATE", "ALTER", "DROP"})
"""Reserved words that statements begin with."""

_BEHIND_MEASURES: Final = frozenset({",", "PATTERN", "ONE", "ALL", "AFTER"})
"""The words that may follow a measure of ``MATCH_RECOGNIZE``."""

_ADVICE: Final = {
    "!=": "Write <>.",
    "[": "Write ARRAY[...].",
    "{": "Write MAP[key, value, ...], or ARRAY[...].",
    "EXCLUDE": "Frames exclude no rows.",
    "DEFAULT": "Columns have no default values: INSERT INTO t (a, b) leaves the others NULL.",
    "INTO": "Write INSERT INTO table SELECT ...",
    "DATETIME": "Write TIMESTAMP(3).",
    "STRING_AGG": "Write LISTAGG(text, separator).",
    "GROUP_CONCAT": "Write LISTAGG(text, separator).",
    "MINUS": "Write EXCEPT.",
    "GRANT": "There are no rights to grant.",
    "REVOKE": "There are no rights to take back.",
    "START_MODE": "It stands in front of FRESHNESS, behind the options of a materialized table.",
}
"""Advice by the unexpected token, for syntax of other dialects."""


def diagnose(kinds: Iterable[str], previous: Token | None, token: Token, following: Token) -> tuple[str, str | None]:
    """The reason of an error at a token, and advice.

    Args:
        kinds: the expected kinds, the most likely first.
        previous: the token before it.
        token: the token.
        following: the token after it.
    """
    expected = list(dict.fromkeys(kinds))
    if END in expected:
        expected = [*(kind for kind in expected if kind not in (END, ";")), END]
    advice = _unreadable(token) or _misspelt(expected, previous, token) or _advice(expected, previous, token, following)
    return f"expected {_listed(expected)}, found {found(token)}", advice


def found(token: Token) -> str:
    """The name of a token in a message."""
    if token.kind == END:
        return "the end of the text"
    text = token.text if len(token.text) <= _LONGEST else f"{token.text[:_LONGEST]}..."
    text = text.split("\n", 1)[0]
    if token.kind == BAD and text[0] in "'`":
        return f"{'a text' if text[0] == chr(39) else 'a name'} without its closing quote"
    if token.kind == BAD and text.startswith("/*"):
        return "a comment without its end"
    if token.kind in _LITERALS:
        return f"{_LITERALS[token.kind]} {text}"
    return text.upper() if token.kind in RESERVED else f"'{text}'"


def _listed(expected: Sequence[str]) -> str:
    """The most useful of the expected tokens, as users call them; only a summary if there is one."""
    if summaries := [kind for kind in expected if kind in SUMMARIES]:
        return _joined(summaries)
    hidden = {word for said, words in _SAID_BY.items() if said in expected for word in words}.union(_HIDDEN)
    if len(expected) - len(hidden.intersection(expected)) > _FEW:
        hidden |= _RARE
    kept = [kind for kind in expected if kind not in hidden] or expected[:1]
    words = [_WORDS.get(kind, kind if kind[0].isalpha() else f"'{kind}'") for kind in kept]
    return _joined(words if len(words) <= _MOST else [*words[: _MOST - 1], f"one of {len(words) - _MOST + 1} others"])


def _joined(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _unreadable(token: Token) -> str | None:
    """Advice about text that is not a token."""
    if token.kind != BAD:
        return None
    first = token.text[0]
    if first == '"':
        return "Names are quoted in backticks, `a`, and texts in single quotes, 'a'."
    if first == "'":
        return "A quote inside a text is written twice, ''; a backslash is a character like others."
    if first == "\\":
        return "A backslash escapes nothing; a quote inside a text is written twice, ''."
    return None


def _misspelt(expected: Sequence[str], previous: Token | None, token: Token) -> str | None:
    """Advice about a misspelt keyword, which is a name to the parser: the next token, or the one before it."""
    keywords = [kind for kind in expected if kind.isupper()]
    if token.kind == NAME and (close := closest(token.text, keywords)):
        return f"Did you mean {_WORDS.get(close, close)}?"
    if previous is not None and previous.kind == NAME and (close := closest(previous.text, keywords)):
        return f"Did you mean {close} instead of {previous.text}?"
    return None


def closest(text: str, words: Sequence[str]) -> str | None:
    """The keyword that is most like a text, and is not the text itself."""
    upper = text.upper()
    close = difflib.get_close_matches(upper, [word for word in words if word != upper], 1, _LIKENESS)
    return close[0] if close else None


def _advice(expected: Sequence[str], previous: Token | None, token: Token, following: Token) -> str | None:
    """Advice about syntax of other dialects, and about reserved words."""
    before = previous.kind if previous is not None else END
    if before == "," and token.kind in _CLAUSES:
        return f"Remove the comma before {'the end' if token.kind == END else token.text}."
    if token.kind in _STATEMENTS and END in expected:
        return "A semicolon stands between two statements."
    if previous is not None and previous.text.upper() == "TOP":
        return "Write LIMIT behind the query."
    if previous is not None and before in _TYPES_OF_LITERALS and STRING in expected and token.kind not in _LITERALS:
        return _quoted_name(previous)
    if token.kind == NAME and STRING in expected and NAME not in expected:
        return f"Write it in single quotes: '{token.text}'."
    pair = _PAIRS.get((before, token.kind)) or _PAIRS.get((token.kind, following.kind))
    return pair or _about_alias(expected, before, token) or _ADVICE.get(token.kind) or _about_name(expected, token)


def _about_alias(expected: Sequence[str], before: str, token: Token) -> str | None:
    """Advice about a reserved word behind ``AS``, and about a measure without ``AS``."""
    if before == "AS" and NAME in expected and token.kind in RESERVED:
        return _quoted_name(token)
    if expected[0] == "AS" and AN_OPERATOR in expected and token.kind in _BEHIND_MEASURES:
        return "A measure has a name: write AS and the name."
    return None


def _about_name(expected: Sequence[str], token: Token) -> str | None:
    """Advice about a reserved word where a name is expected."""
    if token.kind in _CLAUSES or token.kind not in RESERVED or not ({NAME, AN_EXPRESSION, "AS"} & {*expected}):
        return None
    return _quoted_name(token)


def _quoted_name(token: Token) -> str:
    return f"{token.kind} is a reserved word; as a name it is written in backticks: `{token.text}`."


_PAIRS: Final = {
    ("AT", "TIME"): (
        "There is no AT TIME ZONE: use CONVERT_TZ(text, from, to), or a TIMESTAMP_LTZ and table.local-time-zone."
    ),
    ("=", "="): "Write = once.",
    ("FOR", "SYSTEM_TIME"): "Write it in front of the alias: rates FOR SYSTEM_TIME AS OF o.ts AS r.",
    (":", ":"): "Write CAST(... AS type).",
    ("-", ">"): "There are no functions as arguments.",
    ("INTO", "TABLE"): "Leave out TABLE.",
    ("OVERWRITE", "TABLE"): "Leave out TABLE.",
    ("FROM", "VALUES"): "Write FROM (VALUES (...)) AS t (a, b).",
    (")", "USING"): "Write WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '...').",
    ("ALL", END): "Name the columns that rows are grouped by.",
    ("(", ")"): "At least one is needed between the parentheses.",
}
"""Advice by two consecutive tokens."""
