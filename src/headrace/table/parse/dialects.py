"""Advice on functions and types of other databases."""

from typing import Final

from headrace.table.parse.diagnosis import closest
from headrace.table.parse.tree.types import TypeWord

_FUNCTIONS: Final = {
    "ADD_MONTHS": "TIMESTAMPADD(MONTH, count, time)",
    "ARRAY_LENGTH": "CARDINALITY(array)",
    "ARRAY_SIZE": "CARDINALITY(array)",
    "COLLECT_LIST": "ARRAY_AGG(value)",
    "COLLECT_SET": "ARRAY_AGG(DISTINCT value)",
    "DATEADD": "TIMESTAMPADD(unit, count, time)",
    "DATEDIFF": "TIMESTAMPDIFF(unit, from, to)",
    "DATE_ADD": "time + INTERVAL '1' DAY",
    "DATE_DIFF": "TIMESTAMPDIFF(unit, from, to)",
    "DATE_PART": "EXTRACT(unit FROM time)",
    "DATE_SUB": "time - INTERVAL '1' DAY",
    "DATE_TRUNC": "FLOOR(time TO unit)",
    "EXPLODE": "CROSS JOIN UNNEST(array)",
    "FROM_JSON": "JSON_VALUE(text, path) or JSON_QUERY(text, path)",
    "GETDATE": "CURRENT_TIMESTAMP",
    "GET_JSON_OBJECT": "JSON_VALUE(text, path)",
    "ISNULL": "value IS NULL, or IFNULL(value, other)",
    "LCASE": "LOWER(text)",
    "LEN": "CHAR_LENGTH(text)",
    "LENGTH": "CHAR_LENGTH(text)",
    "NVL": "COALESCE(value, other)",
    "POSEXPLODE": "CROSS JOIN UNNEST(array) WITH ORDINALITY",
    "SIZE": "CARDINALITY(collection)",
    "STRFTIME": "DATE_FORMAT(time, format)",
    "TO_CHAR": "DATE_FORMAT(time, format)",
    "TO_NUMBER": "CAST(text AS DECIMAL(38, 18))",
    "UCASE": "UPPER(text)",
}

_TYPES: Final = {
    "BLOB": "BYTES",
    "BOOL": "BOOLEAN",
    "BYTEA": "BYTES",
    "BYTE": "TINYINT",
    "CLOB": "STRING",
    "FLOAT4": "FLOAT",
    "FLOAT64": "DOUBLE",
    "FLOAT8": "DOUBLE",
    "INT16": "SMALLINT",
    "INT2": "SMALLINT",
    "INT32": "INT",
    "INT4": "INT",
    "INT64": "BIGINT",
    "INT8": "BIGINT",
    "JSON": "STRING, or VARIANT",
    "JSONB": "STRING, or VARIANT",
    "LONG": "BIGINT",
    "MONEY": "DECIMAL(p, s)",
    "NUMBER": "DECIMAL(p, s)",
    "NVARCHAR": "STRING",
    "SHORT": "SMALLINT",
    "STRUCT": "ROW<name type, ...>",
    "TEXT": "STRING",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(p)",
    "TIMESTAMP_NTZ": "TIMESTAMP(p)",
    "UUID": "STRING",
    "VARCHAR2": "STRING",
}


def function_advice(name: str) -> str | None:
    """The Flink equivalent of another database's function."""
    return _written(name, _FUNCTIONS)


def type_advice(name: str) -> str | None:
    """The Flink equivalent of another database's type."""
    if advice := _written(name, _TYPES):
        return advice
    close = closest(name, [word.value for word in TypeWord])
    return f"Did you mean {close}?" if close else None


def _written(name: str, elsewhere: dict[str, str]) -> str | None:
    written = elsewhere.get(name.upper())
    return f"Write {written}." if written else None
