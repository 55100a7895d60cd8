"""Tables of any library as Arrow tables, and what of Spark is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.common.arguments import refused, shown
from headrace.common.errors import InvalidTypeError


def table_of(data: Any) -> pa.Table:
    """The rows of a table of Arrow, pandas, Polars or DuckDB; or of a dict of columns, or a list of dicts.

    Raises:
        InvalidTypeError: when it is something else, or Arrow has no type for a column.
    """
    try:
        found = _table_of(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidTypeError(f"no Arrow table can be made of this {type(data).__name__}: {error}") from error
    if found is None:
        raise InvalidTypeError(
            f"expected a table of Arrow, pandas, Polars, DuckDB or Spark, not {type(data).__module__}."
            f"{type(data).__qualname__}"
        )
    return found


def is_table(data: Any) -> bool:
    """Whether it is a table of a library, and not elements."""
    return isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def is_spark_dataframe(data: Any) -> bool:
    """Whether it is a DataFrame of Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def check_spark_session(given: Any, method: str) -> None:
    """Refuse what is no session of Spark.

    Raises:
        InvalidTypeError: naming the method that takes one.
    """
    if not (type(given).__module__.startswith("pyspark.") and hasattr(given, "createDataFrame")):
        raise refused(f"{method} takes a SparkSession, not {shown(given)}", InvalidTypeError)


def _table_of(data: Any) -> pa.Table | None:
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _is_pandas(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, Mapping):
        return pa.table(data)
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return pa.Table.from_pylist(list(data))
    return None


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.startswith("pandas.") and hasattr(data, "columns")  # a Series has none
