"""Settings that Spark does not know: it takes them without a word, and a misspelled one has no effect."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark import SparkContext

logger = get_logger(__name__)

_NOT_REGISTERED: Final = frozenset({"spark.app.name", "spark.local.dir", "spark.master", "spark.python.worker.memory"})
"""Settings of Spark that are not among those that its classes declare."""

_OPEN: Final = (
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.headrace.",
    "spark.kubernetes.",
    "spark.metrics.",
    "spark.sql.catalog.",
    "spark.yarn.",
)
"""Where keys are made up by users, or declared by classes that are loaded on some clusters only."""

_LIKENESS: Final = 0.9
"""As of ``difflib``: a letter too many, too few or wrong, or two that have changed places. Other keys are others'."""


def warn_of_misspelled(context: SparkContext, keys: Iterable[str]) -> None:
    """Warn of each key that Spark does not know and that is nearly one that it does.

    Args:
        context: a context that has started, so that its classes have declared their settings.
        keys: what the user has set.
    """
    unsure = [key for key in keys if key not in _NOT_REGISTERED and not key.startswith(_OPEN)]
    try:
        unknown, known = _unknown(context, unsure)
    except (Py4JError, TypeError) as error:  # Spark's own table, which another version may have elsewhere
        logger.debug("whether Spark knows its settings cannot be told: %s", error)
        return
    for key in unknown:
        meant = nearest(key, known)
        if meant is not None:
            logger.warning("%s is no setting that Spark knows, so it has no effect: did you mean %s?", key, meant)


def nearest(key: str, known: Collection[str]) -> str | None:
    """The known key that another one is most probably meant to be; None when none is near."""
    found = difflib.get_close_matches(key, known, 1, _LIKENESS)
    return found[0] if found else None


def _unknown(context: SparkContext, keys: list[str]) -> tuple[list[str], set[str]]:
    """Those that Spark does not know; where there are any, all that it knows as well."""
    if not keys:
        return [], set()
    assert context._jvm is not None
    package: Any = context._jvm.org.apache.spark.internal.config
    table = getattr(getattr(package, "ConfigEntry$"), "MODULE$").knownConfigs()
    unknown = [key for key in keys if not table.containsKey(key)]
    # All at once, as text: each key by itself would be a call into Java
    return unknown, set(table.keySet().toString()[1:-1].split(", ")) if unknown else set()
