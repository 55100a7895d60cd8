"""The Spark settings that headrace relies on, each with its reason."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = get_logger(__name__)


DEFAULT_MASTER: Final = "local[*]"

_LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG_LEVEL: Final = "spark.log.level"
DEFAULT_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Options that stand before the user's."""

_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """A setting of Spark that matters to headrace.

    Attributes:
        key: the name of the setting.
        value: what headrace sets it to.
        why: what happens otherwise.
        spark_default: what Spark takes when nothing is set; needed where a session does not show it.
        upper_bound: whether smaller values do as well; ``value`` is a count or a duration then.
        any_value: whether every value does as well, as long as there is one.
    """

    key: str
    value: str
    why: str
    spark_default: str = ""
    upper_bound: bool = False
    any_value: bool = False

    def accepts(self, found: str) -> bool:
        """Return whether headrace runs as intended with ``found`` in place of `value`."""
        if self.any_value:
            return bool(found)
        if self.upper_bound:
            size = _magnitude(found)
            return size is not None and size <= (_magnitude(self.value) or 0)
        return found.casefold() == self.value.casefold()


@dataclass(frozen=True, slots=True)
class SettingMismatch:
    """A setting of a session that is not as it should be.

    Attributes:
        key: the name of the setting.
        found: its value in the session.
        wanted: the value that it should have.
        why: what the difference leads to.
    """

    key: str
    found: str
    wanted: str
    why: str

    def __str__(self) -> str:
        return f"{self.key} is {self.found or 'not set'}, should be {self.wanted}: {self.why}"


def mismatch_table(mismatches: Sequence[SettingMismatch]) -> str:
    """The text about some settings of one session, a line each in aligned columns."""
    rows = [("setting", "is", "should be", "why")]
    rows += [(found.key, found.found or "not set", found.wanted, found.why) for found in mismatches]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n  ".join(["the Spark session that is running is not set up as headrace would have it:", *lines])


_HISTORY: Final = "Spark keeps a history of every epoch's query in the driver's memory; a long job fills it"
_CHECKSUMS: Final = "a task that gives another result when it is run again would go unnoticed, and mix two attempts"

_CHECKED: Final = (
    SparkSetting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "every Python stage of every epoch waits 40 ms for a delayed TCP acknowledgement",
        spark_default="false",
    ),
    SparkSetting("spark.sql.adaptive.enabled", "false", "adaptive execution splits an epoch's query into several jobs"),
    SparkSetting(
        "spark.sql.classic.shuffleDependency.fileCleanup.enabled",
        "true",
        "the shuffle files of finished epochs stay on disk until the driver's garbage collector happens to run",
    ),
    SparkSetting(
        "spark.cleaner.periodicGC.interval",
        "5min",
        "broadcasts and other left-overs of finished epochs pile up between garbage collections",
        spark_default="30min",
        upper_bound=True,
    ),
    SparkSetting("spark.ui.retainedJobs", "100", _HISTORY, spark_default="1000", upper_bound=True),
    SparkSetting("spark.ui.retainedStages", "100", _HISTORY, spark_default="1000", upper_bound=True),
    # For each stage: enough to show all tasks of a large one
    SparkSetting("spark.ui.retainedTasks", "1000", _HISTORY, spark_default="100000", upper_bound=True),
    SparkSetting("spark.sql.ui.retainedExecutions", "100", _HISTORY, spark_default="1000", upper_bound=True),
    # On by default; written out because exactness rests on them. A consumer whose producer gives other rows when it is
    # run again is run again as a whole, and where that is too late (its results are out) Spark aborts the query: the
    # epoch fails and is repeated.
    SparkSetting("spark.sql.shuffle.orderIndependentChecksum.enabled", "true", _CHECKSUMS),
    SparkSetting("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch", "true", _CHECKSUMS),
)
"""The settings that matter on every master."""

_CHECKED_ON_YARN: Final = (
    SparkSetting(
        "spark.python.unix.domain.socket.dir",
        "/tmp",
        "Unix sockets lie in a container's folder, whose name is longer than their path may be: no worker starts",
        any_value=True,
    ),
)

_OWN_SESSION: Final = {
    "spark.app.name": "headrace",
    # Of a worker that native code crashes, Python then leaves the line at which it was
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # Several jobs, and the commit of one epoch beside the run of the next, share the executors
    "spark.scheduler.mode": "FAIR",
    # Envelopes are few and big, so bytes end a batch; rows of a DataFrame source are small, so their number does
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Behind this number of partitions a task has one shuffle file, sorted by partition; up to it, it writes a file for
    # each partition first: 4,096 of them an epoch at parallelism 64. Where there are few partitions that is cheaper,
    # because nothing is copied to be sorted.
    "spark.shuffle.sort.bypassMergeThreshold": "8",
}

# Every task writes the Java source of its projections and its sort anew, to find that it was compiled before. A task of
# an epoch gets few rows, and at parallelism 64 that took a quarter of Java's time: these are interpreted instead.
EPOCH_QUERY_SETTINGS: Final = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""Of the session in which headrace's own queries run, not of those in which users' DataFrames are evaluated."""

# Tasks run in Python; Java only plans, schedules and shuffles. Its optimising compiler, the profiles that it needs, and
# the threads of its default collector take the cores from the tasks for minutes before they pay, if ever: what is hot
# in a shuffle (compression, checksums, copies) is native code. With the first compiler alone the start takes half a
# second less, and epochs of 400,000 records a sixth less; small ones take less at first, and as long in the end.
FRUGAL_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

_OWN_LOCAL_SESSION: Final = {
    # The driver is the executor as well, and Spark's default of 1g is small for both
    "spark.driver.memory": "2g",
    # Neither a host name that does not resolve nor a changing network matters, and no port is open to others
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # What is shuffled goes to a file of this machine and comes from its page cache at once: columns of numbers take
    # Java more time to compress than to copy, a tenth of all it does where a million records are sent a second
    "spark.shuffle.compress": "false",
}


def checked_settings(master: str) -> tuple[SparkSetting, ...]:
    """The settings that headrace makes in a session of its own, and checks in a session that it is given."""
    return _CHECKED + (_CHECKED_ON_YARN if master == "yarn" else ())


def is_local(master: str) -> bool:
    """Return whether the executors of ``master`` run on this machine."""
    return master.startswith("local")


def runs_tasks_in_driver(master: str) -> bool:
    """Return whether ``master`` has no executors of its own: ``local``, ``local[*]``, not ``local-cluster[...]``."""
    return master == "local" or master.startswith("local[")


def settings_of_own_session(
    settings: Mapping[str, str], master: str | None, given_to_spark: Mapping[str, str]
) -> dict[str, str]:
    """All settings of a session that headrace starts itself.

    Args:
        settings: the user's settings for headrace; they win.
        master: the user's master URL, if any; ``local[*]`` by default.
        given_to_spark: the user's settings for Spark itself (``spark-submit --conf``, ``spark-defaults.conf``); they
            win over headrace's own settings.

    Raises:
        ConfigurationError: when a key is not one of Spark's, or the master is given twice and differently.
    """
    _check(settings, master)
    master = master_of(settings, master, given_to_spark)
    own = {setting.key: setting.value for setting in checked_settings(master)} | _OWN_SESSION
    if is_local(master):
        own |= _OWN_LOCAL_SESSION | _java_options({**given_to_spark, **settings})
    wishes = {key: value for key, value in own.items() if key not in given_to_spark}
    return wishes | dict(settings) | {"spark.master": master}


def master_of(settings: Mapping[str, str], master: str | None, given_to_spark: Mapping[str, str]) -> str:
    """The master of a session that headrace starts; arguments as of :func:`settings_of_own_session`."""
    return master or settings.get("spark.master") or given_to_spark.get("spark.master") or DEFAULT_MASTER


def _java_options(theirs: Mapping[str, str]) -> dict[str, str]:
    """Headrace's options for Java, which stand before the user's; none where the user tunes it, too."""
    if "-XX:" in theirs.get(_JAVA_OPTIONS, ""):
        return {}
    return {DEFAULT_JAVA_OPTIONS: FRUGAL_JAVA}


def quiet_logging(given_to_spark: Mapping[str, str], configuration_directory: Path | None) -> dict[str, str]:
    """The setting that keeps the driver's log to errors; none where the user has a log configuration already."""
    if _configures_logging(given_to_spark, configuration_directory) or not _LOG_CONFIGURATION.is_file():
        return {}
    theirs = given_to_spark.get(_JAVA_OPTIONS, "")
    return {_JAVA_OPTIONS: f"{theirs} -Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}".strip()}


def quiet_log_level(given_to_spark: Mapping[str, str], configuration_directory: Path | None) -> dict[str, str]:
    """The same for a driver whose Java runs already; what it logs before there is a session cannot be helped."""
    if _configures_logging(given_to_spark, configuration_directory) or _LOG_LEVEL in given_to_spark:
        return {}
    return {_LOG_LEVEL: "ERROR"}


def _configures_logging(given_to_spark: Mapping[str, str], configuration_directory: Path | None) -> bool:
    has_file = configuration_directory is not None and (configuration_directory / "log4j2.properties").is_file()
    return has_file or "log4j" in given_to_spark.get(_JAVA_OPTIONS, "")


def read_spark_defaults(text: str) -> dict[str, str]:
    """The settings in the text of a ``spark-defaults.conf``: a key and a value a line, ``#`` begins a comment line."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"\s*[\s=:]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _check(settings: Mapping[str, str], master: str | None) -> None:
    for key in settings:
        if not key.startswith("spark."):
            raise ConfigurationError(f"{key!r} is not a setting of Spark: their names begin with 'spark.'")
    theirs = settings.get("spark.master")
    if master and theirs and theirs != master:
        raise ConfigurationError(f"the master is given twice: {master!r} and spark.master={theirs!r}; keep one of them")


def _magnitude(text: str) -> int | None:
    """A count, or a duration in seconds as Spark writes it (``90``, ``300s``, ``5min``); None for anything else."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in _UNITS:
        return None
    return int(found[1]) * _UNITS[found[2]]


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
"""Namespaces whose keys users make up, or that classes declare which are loaded on some clusters only."""

_LIKENESS: Final = 0.9
"""The similarity from which on a key counts as misspelled, as ``difflib`` measures it: a letter too many, too few or
wrong, or two that have changed places. Other keys belong to others."""


def warn_of_misspelled(context: SparkContext, keys: Iterable[str]) -> None:
    """Warn of each key that is no option of Spark and nearly one.

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
    """Return the options that are not Spark's; where there are any, all of Spark's as well."""
    if not keys:
        return [], set()
    assert context._jvm is not None
    package: Any = context._jvm.org.apache.spark.internal.config
    table = getattr(getattr(package, "ConfigEntry$"), "MODULE$").knownConfigs()
    unknown = [key for key in keys if not table.containsKey(key)]
    # All at once, as text: each key by itself would be a call into Java
    return unknown, set(table.keySet().toString()[1:-1].split(", ")) if unknown else set()
