"""Samples of metrics for reporters, each with its kind and its scope, and the filters that choose among them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from headrace.metrics.registry import Summary
from headrace.metrics.scopes import MetricScope


class MetricKind(Enum):
    """The kinds of metrics, under the names that filters have for them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MeterReading:
    """A meter at a moment.

    Attributes:
        count: how many events there were.
        rate: events in a second.
    """

    count: int
    rate: float


MetricValue: TypeAlias = int | float | str | MeterReading | Summary


@dataclass(frozen=True, slots=True)
class MetricSample:
    """A metric at a moment.

    Attributes:
        scope: what it belongs to, with the groups that it is in.
        name: its own name.
        kind: its kind.
        value: of a counter an integer, of a gauge a number or a text, else what the kind says.
        description: what it says, for people; empty for metrics of functions.
    """

    scope: MetricScope
    name: str
    kind: MetricKind
    value: MetricValue
    description: str = ""


_LISTED: Final = ","
_KINDS: Final = ", ".join(kind.value for kind in MetricKind)


@dataclass(frozen=True, slots=True)
class MetricPattern:
    """One pattern of a filter: ``scope:name,name:kind,kind``, with ``*`` for any text.

    Attributes:
        text: the pattern as it stands in a configuration.
        scope: matches logical scopes, with dots between their parts.
        name: matches names.
        kinds: the kinds that match.
    """

    text: str
    scope: re.Pattern[str]
    name: re.Pattern[str]
    kinds: frozenset[MetricKind]

    @classmethod
    def parse(cls, text: str) -> MetricPattern:
        """Read a pattern as it stands in a configuration.

        Raises:
            ValueError: saying what is wrong with it.
        """
        scope, names, kinds = [*(part.strip() for part in text.split(":")), "*", "*"][:3]
        if text.count(":") > 2 or not scope:
            raise ValueError(f"<scope>:<name>,<name>:<kind>,<kind> such as 'jobmanager.job:*Time:gauge', not {text!r}")
        return cls(text, _pattern(scope), _pattern(names), _kinds(kinds))

    def __str__(self) -> str:
        return self.text

    def matches(self, sample: MetricSample) -> bool:
        """Return whether it matches a metric."""
        if sample.kind not in self.kinds or self.name.fullmatch(sample.name) is None:
            return False
        return self.scope.fullmatch(".".join(sample.scope.logical)) is not None


def _pattern(text: str) -> re.Pattern[str]:
    alternatives = (".*".join(map(re.escape, part.strip().split("*"))) for part in text.split(_LISTED))
    return re.compile("|".join(alternatives))


def _kinds(text: str) -> frozenset[MetricKind]:
    names = [name.strip().lower() for name in text.split(_LISTED)]
    if "*" in names:
        return frozenset(MetricKind)
    try:
        return frozenset(map(MetricKind, names))
    except ValueError:
        raise ValueError(f"kinds among {_KINDS}, not {text!r}") from None


@dataclass(frozen=True, slots=True)
class MetricFilter:
    """The metrics that a reporter gets: those that are included, and of these none that is excluded.

    Attributes:
        includes: one of these has to match.
        excludes: none of these may.
    """

    includes: tuple[MetricPattern, ...]
    excludes: tuple[MetricPattern, ...] = ()

    def takes(self, sample: MetricSample) -> bool:
        """Return whether a metric goes through."""
        return not _any(self.excludes, sample) and _any(self.includes, sample)


def _any(patterns: Iterable[MetricPattern], sample: MetricSample) -> bool:
    return any(pattern.matches(sample) for pattern in patterns)
