"""What Spark knows of the rows of a DataFrame before it computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame

from headrace.formats.statistics import ColumnStatistics, Statistics

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
    plan: Any = dataframe._jdf.queryExecution().optimizedPlan()
    found = _of_catalog(plan) or plan.stats()
    rows, size = _optional(found.rowCount()), int(str(found.sizeInBytes()))
    if rows is None:
        if size >= _UNKNOWN_BYTES:
            return None
        width: int = plan.schema().defaultSize()
        rows = size // max(width, 1)
    columns = dict(_columns(plan, found))
    return Statistics(rows, lambda name: columns.get(name, ColumnStatistics()))


def _of_catalog(plan: Any) -> Any:
    """What ``ANALYZE TABLE`` has found of the table that a plan is; None of other plans.

    A plan itself says that only where ``spark.sql.cbo.planStats.enabled`` is set.
    """
    if plan.getClass().getSimpleName() != "LogicalRelation" or not plan.catalogTable().isDefined():
        return None
    known = plan.catalogTable().get().stats()
    return known.get().toPlanStats(plan.output(), True) if known.isDefined() else None


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
    return int(str(number.get())) if number.isDefined() else None
