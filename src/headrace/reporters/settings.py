"""The reporters that a configuration asks for: ``metrics.reporter.<name>.<option>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.common import options
from headrace.common.config_options import ConfigOption, parse_list, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.metrics.samples import MetricFilter, MetricPattern
from headrace.reporters.reporter import FLINK_FACTORIES, METRIC_REPORTERS, MetricReporter


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
"""The options that every reporter has."""


@dataclass(frozen=True, slots=True)
class ReporterSettings:
    """One reporter of a job.

    Attributes:
        name: its name in the configuration.
        reporter: the reporter, not open yet.
        interval: milliseconds between two reports.
        delimiter: stands between the parts of the names of metrics.
        filter: the metrics that it gets.
        excluded: labels that are left out.
        additional: labels that all metrics have besides.
        options: its own options, checked.
    """

    name: str
    reporter: MetricReporter
    interval: int
    delimiter: str
    filter: MetricFilter
    excluded: tuple[str, ...]
    additional: Mapping[str, str]
    options: Configuration


def reporters_of(configuration: Configuration) -> list[ReporterSettings]:
    """The reporters that a configuration asks for.

    Raises:
        ConfigurationError: when there is no such reporter, or one of its options cannot be read.
    """
    given = _by_name(configuration)
    wanted = configuration.get(options.METRIC_REPORTERS)
    names = list(given) if wanted is None else list(filter(None, re.split(r"\s*[,;]\s*", wanted.strip())))
    for name in names:
        if name not in given:
            raise ConfigurationError(
                f"{options.METRIC_REPORTERS.key}: nothing is said of a reporter {name!r}: set "
                f"{options.REPORTER_NAMESPACE}{name}.{FACTORY.key}"
            )
    return [_settings(name, given[name], configuration) for name in names]


def _by_name(configuration: Configuration) -> dict[str, dict[str, str]]:
    """By the names of reporters, what is said of them."""
    found: dict[str, dict[str, str]] = {}
    for key, value in configuration.to_dict().items():
        if key.startswith(options.REPORTER_NAMESPACE):
            name, separator, option = key.removeprefix(options.REPORTER_NAMESPACE).partition(".")
            if not (name and separator and option):
                raise ConfigurationError(f"{key}: write {options.REPORTER_NAMESPACE}<name>.<option>")
            found.setdefault(name, {})[option] = value
    return found


def _settings(name: str, given: Mapping[str, str], configuration: Configuration) -> ReporterSettings:
    place = f"{options.REPORTER_NAMESPACE}{name}."
    try:
        common = Configuration.from_dict(given)
        reporter = METRIC_REPORTERS.load(_plugin_of(common))
        own = {key: value for key, value in given.items() if key not in _COMMON_KEYS}
        return ReporterSettings(
            name,
            reporter,
            common.get(INTERVAL),
            common.get(DELIMITER) or configuration.get(options.METRIC_SCOPE_DELIMITER),
            MetricFilter(common.get(INCLUDES), common.get(EXCLUDES)),
            common.get(EXCLUDED),
            common.get(ADDITIONAL),
            reporter.read_options(own),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from error


_COMMON_KEYS: Final = frozenset(key for option in COMMON_OPTIONS for key in (option.key, *option.deprecated_keys))


def _plugin_of(given: Configuration) -> str:
    factory = given.get(FACTORY)
    if factory is None:
        raise ConfigurationError(f"{FACTORY.key} is not set; it says which reporter it is, prometheus say")
    return FLINK_FACTORIES.get(factory) or FLINK_FACTORIES.get(f"{factory}Factory") or factory
