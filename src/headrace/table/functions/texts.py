"""Functions of text and bytes."""

from typing import Final

from headrace.common.logical_types import ArrayType, LogicalType, MapType
from headrace.table.functions.definitions import CallShape, Determinism, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kernels import encodings, patterns, randomness, texts
from headrace.table.functions.kernels.kernel import Kernel
from headrace.table.functions.rules import (
    A_BIGINT,
    A_TEXT,
    ANY,
    BINARY,
    CONDITION,
    CONDITION_RESULT,
    DATE_OR_TIME,
    INTEGER,
    NUMERIC,
    TEXT,
    TEXT_OR_BINARY,
    Parameter,
    Result,
    always,
    anyone_nullable,
    either,
    gives,
    like_argument,
    maybe,
    nullable,
    one_of,
    takes,
    uniform,
)
from headrace.table.functions.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    R,
    char,
    root_of,
    size_of,
    varchar,
    with_nullability,
)
from headrace.table.logical.scalars import Literal


def _varying(_: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    """``VARCHAR`` of the length of the first argument."""
    return varchar(size_of(types[0])) if root_of(types[0]) is R.CHAR else types[0]


def _varying_like(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return with_nullability(_varying(shape, types), anyone_nullable(shape))


def _maybe_varying(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return _varying(shape, types).as_nullable()


def _overlaid(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    length = min(size_of(types[0]) + size_of(types[1]), size_of(STRING))
    return with_nullability(varchar(length), anyone_nullable(shape))


def _element(shape: CallShape) -> Signature | None:
    """``ELT(n, a, b, ...)``: texts or bytes of one kind."""
    if len(shape.operands) < 2 or INTEGER(shape.types[0]) is None:
        return None
    index = shape.operands[0]
    if isinstance(index, Literal) and index.value is not None and index.value < 0:
        return None
    rest = CallShape(shape.operands[1:])
    found = uniform(lambda _, types: types[0].as_nullable())(rest)
    if found is None or TEXT_OR_BINARY(found.result) is None:
        return None
    return Signature((shape.types[0], *shape.types[1:]), found.result)


_PART: Final = nullable(TEXT_OR_BINARY, STRING)
_NUMBER_OR_TEXT: Final = either(TEXT, NUMERIC)
_TEXT_OR_INTEGER: Final = either(TEXT, INTEGER)
_TEXTS: Final = ArrayType(STRING)
_PAIRS: Final = MapType(STRING, STRING)
_STRING: Final = gives(STRING)


def _define(name: str, rule: TypeRule, kernel: Kernel, usage: str) -> FunctionDefinition:
    return FunctionDefinition(name, rule, kernel=kernel, usage=usage)


def _of_text(name: str, result: Result, kernel: Kernel, *more: Parameter, optional: int = 0) -> FunctionDefinition:
    names = ["text", "text", "text", "text"]
    usage = f"{name}({', '.join(names[: 1 + len(more)])})"
    return _define(name, takes(TEXT, *more, optional=optional, result=result), kernel, usage)


_LIKE_IT: Final = like_argument()

_WORDS: Final = (
    _of_text("UPPER", _LIKE_IT, texts.upper),
    _of_text("LOWER", _LIKE_IT, texts.lower),
    _of_text("INITCAP", _LIKE_IT, texts.initcap),
    _of_text("REVERSE", maybe(STRING), texts.reverse),
    _of_text("CHAR_LENGTH", gives(INT), texts.char_length),
    _define("CONCAT", takes(TEXT, variadic=True, result=_STRING), texts.concat, "CONCAT(text, ...)"),
    _define(
        "CONCAT_WS",
        takes(TEXT, TEXT, variadic=True, optional=1, result=_STRING),
        texts.concat_ws,
        "CONCAT_WS(separator, text, ...)",
    ),
    _define(
        "SUBSTRING",
        takes(TEXT, INTEGER, INTEGER, optional=1, result=_maybe_varying),
        texts.substring,
        "SUBSTRING(text FROM start [FOR length]), SUBSTRING(text, start[, length])",
    ),
    _define("LEFT", takes(TEXT, INTEGER, result=_maybe_varying), texts.left, "LEFT(text, length)"),
    _define("RIGHT", takes(TEXT, INTEGER, result=_maybe_varying), texts.right, "RIGHT(text, length)"),
    _define("REPEAT", takes(TEXT, INTEGER, result=_STRING), texts.repeat, "REPEAT(text, count)"),
    _define("LPAD", takes(TEXT, INTEGER, TEXT, result=_STRING), texts.lpad, "LPAD(text, length, padding)"),
    _define("RPAD", takes(TEXT, INTEGER, TEXT, result=_STRING), texts.rpad, "RPAD(text, length, padding)"),
    _define(
        "TRIM",
        takes(TEXT, TEXT, result=lambda shape, types: _varying_like(shape, types[1:])),
        texts.trim,
        "TRIM([BOTH | LEADING | TRAILING] [characters FROM] text)",
    ),
    _define("LTRIM", takes(TEXT, TEXT, optional=1, result=_varying_like), texts.ltrim, "LTRIM(text[, characters])"),
    _define("RTRIM", takes(TEXT, TEXT, optional=1, result=_varying_like), texts.rtrim, "RTRIM(text[, characters])"),
    _define("BTRIM", takes(A_TEXT, A_TEXT, optional=1, result=_STRING), texts.btrim, "BTRIM(text[, characters])"),
    _define(
        "POSITION", takes(TEXT, TEXT, INTEGER, optional=1, result=gives(INT)), texts.position, "POSITION(part IN text)"
    ),
    _define(
        "LOCATE",
        takes(TEXT, TEXT, INTEGER, optional=1, result=gives(INT)),
        texts.position,
        "LOCATE(part, text[, start])",
    ),
    _define(
        "INSTR",
        takes(TEXT, TEXT, INTEGER, INTEGER, optional=2, result=gives(INT)),
        texts.instr,
        "INSTR(text, part[, start[, occurrence]])",
    ),
    _define("REPLACE", takes(TEXT, TEXT, TEXT, result=_STRING), texts.replace, "REPLACE(text, old, new)"),
    _define(
        "TRANSLATE",
        takes(TEXT, TEXT, TEXT, result=lambda shape, types: with_nullability(STRING, types[0].nullable)),
        texts.translate,
        "TRANSLATE(text, characters, others)",
    ),
    _define(
        "OVERLAY",
        takes(TEXT, TEXT, INTEGER, INTEGER, optional=1, result=_overlaid),
        texts.overlay,
        "OVERLAY(text PLACING other FROM start [FOR length])",
    ),
    _of_text("ASCII", gives(INT), texts.ascii_code),
    _define("CHR", takes(INTEGER, result=maybe(STRING)), texts.chr_, "CHR(code)"),
    _define("SPLIT", takes(A_TEXT, A_TEXT, result=gives(_TEXTS)), texts.split, "SPLIT(text, delimiter)"),
    _define(
        "SPLIT_INDEX",
        takes(TEXT, _TEXT_OR_INTEGER, INTEGER, result=maybe(STRING)),
        texts.split_index,
        "SPLIT_INDEX(text, delimiter, index)",
    ),
    _define(
        "STR_TO_MAP",
        one_of(takes(TEXT, result=maybe(_PAIRS)), takes(TEXT, TEXT, TEXT, result=maybe(_PAIRS))),
        texts.str_to_map,
        "STR_TO_MAP(text[, between pairs, between key and value])",
    ),
    _define(
        "STARTSWITH",
        takes(_PART, _PART, result=CONDITION_RESULT),
        texts.startswith,
        "STARTSWITH(text, start)",
    ),
    _define(
        "ENDSWITH",
        takes(_PART, _PART, result=CONDITION_RESULT),
        texts.endswith,
        "ENDSWITH(text, end)",
    ),
    _define("ELT", _element, texts.elt, "ELT(index, text, ...)"),
    _define("IS_ALPHA", takes(_NUMBER_OR_TEXT, result=always(BOOLEAN)), texts.is_alpha, "IS_ALPHA(text)"),
    _define("IS_DIGIT", takes(_NUMBER_OR_TEXT, result=always(BOOLEAN)), texts.is_digit, "IS_DIGIT(text)"),
    _define("IS_DECIMAL", takes(_NUMBER_OR_TEXT, result=always(BOOLEAN)), texts.is_decimal, "IS_DECIMAL(text)"),
    _define(
        "PRINTF",
        takes(A_TEXT, ANY, variadic=True, optional=1, result=maybe(STRING)),
        texts.printf,
        "PRINTF(format, value, ...)",
    ),
)

_REGEX: Final = (
    _of_text("REGEXP", CONDITION_RESULT, patterns.regexp, TEXT),
    _of_text("REGEXP_REPLACE", _STRING, patterns.regexp_replace, TEXT, TEXT),
    _define(
        "REGEXP_EXTRACT",
        takes(TEXT, TEXT, INTEGER, optional=1, result=maybe(STRING)),
        patterns.regexp_extract,
        "REGEXP_EXTRACT(text, pattern[, group])",
    ),
    _define(
        "REGEXP_EXTRACT_ALL",
        takes(A_TEXT, A_TEXT, nullable(INTEGER, INT), optional=1, result=maybe(_TEXTS)),
        patterns.regexp_extract_all,
        "REGEXP_EXTRACT_ALL(text, pattern[, group])",
    ),
    _define(
        "REGEXP_COUNT", takes(A_TEXT, A_TEXT, result=maybe(INT)), patterns.regexp_count, "REGEXP_COUNT(text, text)"
    ),
    _define(
        "REGEXP_INSTR", takes(A_TEXT, A_TEXT, result=maybe(INT)), patterns.regexp_instr, "REGEXP_INSTR(text, text)"
    ),
    _define(
        "REGEXP_SUBSTR",
        takes(A_TEXT, A_TEXT, result=maybe(STRING)),
        patterns.regexp_substr,
        "REGEXP_SUBSTR(text, text)",
    ),
)


def _hash(name: str, length: int) -> FunctionDefinition:
    rule = takes(TEXT_OR_BINARY, result=gives(char(length)))
    return _define(name, rule, encodings.hashed(name.lower()), f"{name}(text)")


_HASHED: Final = either(TEXT, NUMERIC, CONDITION, DATE_OR_TIME)

_ENCODED: Final = (
    _define("ENCODE", takes(TEXT, TEXT, result=gives(BYTES)), encodings.encode, "ENCODE(text, charset)"),
    _define("DECODE", takes(BINARY, TEXT, result=_STRING), encodings.decode, "DECODE(bytes, charset)"),
    _define("TO_BASE64", takes(TEXT_OR_BINARY, result=_STRING), encodings.to_base64, "TO_BASE64(text)"),
    _define("FROM_BASE64", takes(TEXT_OR_BINARY, result=_STRING), encodings.from_base64, "FROM_BASE64(text)"),
    _define("HASH_CODE", takes(_HASHED, result=gives(INT)), encodings.hash_code, "HASH_CODE(value)"),
    _hash("MD5", 32),
    _hash("SHA1", 40),
    _hash("SHA224", 56),
    _hash("SHA256", 64),
    _hash("SHA384", 96),
    _hash("SHA512", 128),
    _define("SHA2", takes(TEXT, INTEGER, result=gives(varchar(128))), encodings.sha2, "SHA2(text, bits)"),
    _define("URL_ENCODE", takes(A_TEXT, result=maybe(STRING)), encodings.url_encode, "URL_ENCODE(text)"),
    _define("URL_DECODE", takes(A_TEXT, result=maybe(STRING)), encodings.url_decode, "URL_DECODE(text)"),
    _of_text("PARSE_URL", maybe(STRING), encodings.parse_url, TEXT, TEXT, optional=1),
    _define("INET_ATON", takes(A_TEXT, result=maybe(BIGINT)), encodings.inet_aton, "INET_ATON(text)"),
    _define("INET_NTOA", takes(A_BIGINT, result=maybe(STRING)), encodings.inet_ntoa, "INET_NTOA(number)"),
    _define("BIN", takes(INTEGER, result=_STRING), encodings.bin_, "BIN(number)"),
    _define("HEX", takes(_TEXT_OR_INTEGER, result=_STRING), encodings.hex_, "HEX(number), HEX(text)"),
    _define("UNHEX", takes(A_TEXT, result=maybe(BYTES)), encodings.unhex, "UNHEX(text)"),
    FunctionDefinition(
        "UUID", takes(result=always(char(36))), determinism=Determinism.NEVER, kernel=randomness.uuid, usage="UUID()"
    ),
)

TEXT_FUNCTIONS: Final = (*_WORDS, *_REGEX, *_ENCODED)
