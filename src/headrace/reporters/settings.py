"""The reporters that a configuration asks for: ``metrics.reporter.<name>.<option>``, ``traces.reporter.…``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from headrace.common import options
from headrace.common.config_options import ConfigOption, parse_list, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.type_variables import T
from headrace.metrics.samples import MetricPattern
from headrace.reporters.reporter import (
    FLINK_FACTORIES,
    FLINK_TRACE_FACTORIES,
    METRIC_REPORTERS,
    TRACE_REPORTERS,
    MetricReporter,
    TraceReporter,
)


def _text_list(text: str) -> tuple[str, ...]:
    return tuple(str(item).strip() for item in parse_list(text))


def _patterns(text: str) -> tuple[MetricPattern, ...]:
    return tuple(MetricPattern.parse(item) for item in _text_list(text))


def _labels(text: str) -> Mapping[str, str]:
    """``region:eu,tier:gold``."""
    found: dict[str, str] = {}
    for pair in filter(str.strip, text.split(",")):
        name, separator, value = (part.strip() for part in pair.partition(":"))
        if not (separator and name and value):
            raise ValueError("labels such as 'region:eu,tier:gold'")
        found[name] = value
    return found


FACTORY: Final = ConfigOption[str | None](
    "factory.class", str, None, "Which reporter it is: its name, or its factory in Flink.", ("class",)
)
INTERVAL: Final = ConfigOption(
    "interval", positive_duration, 10_000, "The time between two reports, for those that are not asked for."
)
DELIMITER: Final = ConfigOption[str | None](
    "scope.delimiter", str, None, "As `metrics.scope.delimiter`, for this reporter."
)
EXCLUDED: Final[ConfigOption[tuple[str, ...]]] = ConfigOption(
    "scope.variables.excludes", _text_list, (), "Labels that are left out, with `;` between them."
)
ADDITIONAL: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "scope.variables.additional", _labels, {}, "Labels that all metrics have besides: `region:eu,tier:gold`."
)
INCLUDES: Final[ConfigOption[tuple[MetricPattern, ...]]] = ConfigOption(
    "filter.includes",
    _patterns,
    (MetricPattern.parse("*:*:*"),),
    "The metrics that are reported: `<scope>:<name>,<name>:<kind>,<kind>` with `*` for any text, and `;` between "
    "several; all when not set.",
)
EXCLUDES: Final[ConfigOption[tuple[MetricPattern, ...]]] = ConfigOption(
    "filter.excludes", _patterns, (), "Of these the metrics that are not, in the same notation."
)

COMMON_OPTIONS: Final = (FACTORY, INTERVAL, DELIMITER, EXCLUDED, ADDITIONAL, INCLUDES, EXCLUDES)
"""The options that every reporter of metrics has."""


COMMON_TRACE_OPTIONS: Final = (FACTORY, INTERVAL, ADDITIONAL)
"""The options that every reporter of spans has."""

R = TypeVar("R", bound=Plugin)
R_co = TypeVar("R_co", bound=Plugin, covariant=True)


@dataclass(frozen=True, slots=True)
class ReporterSettings(Generic[R_co]):
    """One reporter of a job.

    Attributes:
        name: its name in the configuration.
        reporter: the reporter, not open yet.
        common: what all of its kind are told.
        options: its own options, checked.
    """

    name: str
    reporter: R_co
    common: Configuration
    options: Configuration

    def get(self, option: ConfigOption[T]) -> T:
        """The value of an option that all of its kind have."""
        return self.common.get(option)


@dataclass(frozen=True, slots=True)
class _ReporterKind(Generic[R]):
    """A kind of reporters.

    Attributes:
        names: the option that names those which are used.
        namespace: how the keys of their options begin.
        plugins: all that are there.
        factories: by the factories that Flink has, their names.
        common: the options that all have.
    """

    names: ConfigOption[str | None]
    namespace: str
    plugins: PluginGroup[R]
    factories: Mapping[str, str]
    common: tuple[ConfigOption, ...]

    def settings(self, configuration: Configuration) -> Iterator[ReporterSettings[R]]:
        """Those that a configuration asks for.

        Raises:
            ConfigurationError: when there is no such reporter, or one of its options cannot be read.
        """
        given = self._by_name(configuration)
        wanted = configuration.get(self.names)
        names = list(given) if wanted is None else list(filter(None, re.split(r"\s*[,;]\s*", wanted.strip())))
        for name in names:
            if name not in given:
                said = f"nothing is said of a reporter {name!r}: set {self.namespace}{name}.{FACTORY.key}"
                raise ConfigurationError(f"{self.names.key}: {said}")
        for name in names:
            try:
                yield self._made(name, given[name])
            except ConfigurationError as error:
                raise ConfigurationError(f"{self.namespace}{name}.: {error}") from error

    def _by_name(self, configuration: Configuration) -> dict[str, dict[str, str]]:
        """By the names of reporters, what is said of them."""
        found: dict[str, dict[str, str]] = {}
        for key, value in configuration.to_dict().items():
            if key.startswith(self.namespace):
                name, separator, option = key.removeprefix(self.namespace).partition(".")
                if not (name and separator and option):
                    raise ConfigurationError(f"{key}: write {self.namespace}<name>.<option>")
                found.setdefault(name, {})[option] = value
        return found

    def _made(self, name: str, given: Mapping[str, str]) -> ReporterSettings[R]:
        keys = {key for option in self.common for key in (option.key, *option.deprecated_keys)}
        common = Configuration.from_dict({key: value for key, value in given.items() if key in keys})
        for option in self.common:
            common.get(option)
        reporter = self.plugins.load(self._plugin_of(common))
        own = {key: value for key, value in given.items() if key not in keys}
        return ReporterSettings(name, reporter, common, reporter.read_options(own))

    def _plugin_of(self, given: Configuration) -> str:
        factory = given.get(FACTORY)
        if factory is None:
            known = ", ".join(self.plugins.names())
            raise ConfigurationError(f"{FACTORY.key} is not set; it says which reporter it is: {known}")
        return self.factories.get(factory) or self.factories.get(f"{factory}Factory") or factory


_METRICS: Final = _ReporterKind(
    options.METRIC_REPORTERS, options.REPORTER_NAMESPACE, METRIC_REPORTERS, FLINK_FACTORIES, COMMON_OPTIONS
)
_TRACES: Final = _ReporterKind(
    options.TRACE_REPORTERS,
    options.TRACE_REPORTER_NAMESPACE,
    TRACE_REPORTERS,
    FLINK_TRACE_FACTORIES,
    COMMON_TRACE_OPTIONS,
)


def reporters_of(configuration: Configuration) -> list[ReporterSettings[MetricReporter]]:
    """The reporters of metrics that a configuration asks for.

    Raises:
        ConfigurationError: when what it asks for cannot be done.
    """
    return list(_METRICS.settings(configuration))


def trace_reporters_of(configuration: Configuration) -> list[ReporterSettings[TraceReporter]]:
    """The reporters of spans that a configuration asks for.

    Raises:
        ConfigurationError: likewise.
    """
    return list(_TRACES.settings(configuration))
