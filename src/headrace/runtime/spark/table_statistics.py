"""What Spark knows of the rows of a DataFrame before it computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from headrace.formats.statistics import ColumnStatistics, Statistics

_WITH_ROWS: Final = "spark.sql.cbo.planStats.enabled"
"""Without it, plans have the size of a table, and not what ANALYZE TABLE has counted."""

_UNKNOWN_BYTES: Final = 1 << 60
"""From here on the size is what Spark says where it knows nothing."""

_EPOCH: Final = date(1970, 1, 1)


def _number(value: Any) -> Any:
    return value


def _day(value: int) -> date:
    return _EPOCH + timedelta(days=value)


_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), _number),
    "date": _day,
}
"""Values as Arrow gives them, from Spark's own, by the type; of other types no lowest and highest ones are known."""


def statistics_of(dataframe: DataFrame) -> Statistics | None:
    """What Spark knows of a DataFrame: what ``ANALYZE TABLE`` has found, or else what follows from its size.

    Returns:
        None where Spark knows nothing.
    """
    with _with_rows(dataframe.sparkSession):
        plan: Any = dataframe._jdf.queryExecution().optimizedPlan()
        found = plan.stats()
        rows, size = _optional(found.rowCount()), int(found.sizeInBytes().toString())
    if rows is None:
        if size >= _UNKNOWN_BYTES:
            return None
        width: int = plan.schema().defaultSize()
        rows = size // max(width, 1)
    columns = dict(_columns(plan, found))
    return Statistics(rows, lambda name: columns.get(name, ColumnStatistics()))


def _columns(plan: Any, found: Any) -> Iterator[tuple[str, ColumnStatistics]]:
    output, known = plan.output(), found.attributeStats()
    for place in range(output.length()):
        attribute = output.apply(place)
        column = known.get(attribute)
        if column.isDefined():
            yield attribute.name(), _column(attribute.dataType().simpleString(), column.get())


def _column(kind: str, column: Any) -> ColumnStatistics:
    convert = _VALUES.get(kind)
    lowest, highest = (
        None if convert is None or not end.isDefined() else convert(end.get()) for end in (column.min(), column.max())
    )
    return ColumnStatistics(_optional(column.nullCount()), lowest, highest, _optional(column.distinctCount()))


def _optional(number: Any) -> int | None:
    """The number in one of Scala's options."""
    return int(number.get().toString()) if number.isDefined() else None


@contextmanager
def _with_rows(session: SparkSession) -> Iterator[None]:
    before = session.conf.get(_WITH_ROWS, None)
    session.conf.set(_WITH_ROWS, "true")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_WITH_ROWS)
        else:
            session.conf.set(_WITH_ROWS, before)
