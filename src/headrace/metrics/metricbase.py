"""``MetricGroup`` and what it makes. Names are those of PyFlink's module ``pyflink.metrics.metricbase``."""

from collections.abc import Callable

from headrace.common.errors import InvalidTypeError, expect, refused, shown
from headrace.common.public_module import public_module
from headrace.metrics.registry import OWN_NAMES, Counter, Distribution, Meter, Metric, MetricGroupName, MetricRegistry

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]


class MetricGroup:
    """Makes metrics, and groups within itself. That of an operator is what ``get_metrics_group()`` gives.

    What a job has measured is in ``JobClient.get_metrics()``, as ``<operator>.<groups>.<name>``.

    Args:
        registry: where they are kept.
        groups: the group itself and those around it, the outermost one first.

    Examples:
        >>> from headrace.metrics import MetricGroup
        >>> from headrace.metrics.registry import MetricRegistry
        >>> registry = MetricRegistry()
        >>> http = MetricGroup(registry).add_group("http")
        >>> http.add_group("status", "404").counter("answers").inc()
        >>> http.gauge("open", lambda: 3)
        >>> measured = registry.take()
        >>> measured.counters, measured.gauges
        ({'http.status.404.answers': 1}, {'http.open': 3})
    """

    def __init__(self, registry: MetricRegistry, groups: tuple[MetricGroupName, ...] = ()) -> None:
        self._registry = registry
        self._groups = groups
        self._prefix = "".join(f"{name}." for group in groups for name in group if name is not None)

    def add_group(self, name: str, extra: str | None = None) -> "MetricGroup":
        """A group in this one; with ``extra`` ``name`` is a key, and ``extra`` its value.

        Raises:
            InvalidProgramError: when one of them is empty.
        """
        names = (name,) if extra is None else (name, extra)
        for each in names:
            expect(each, str, "add_group")
            if not each:
                raise refused(f"add_group: {''!r} cannot be the name of a group, since it has no letter")
        return MetricGroup(self._registry, (*self._groups, (name, extra)))

    def counter(self, name: str) -> Counter:
        """A number that is counted; asking again for a name gives the same counter.

        Raises:
            InvalidProgramError: when the name is taken by another kind of metric, by what another one is shown as, or
                by one of headrace's own.
        """
        return self._registry.registered(self._full_name(name, "counter"), Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """A value, of each subtask by itself: ``<operator>.<subtask>.<name>``, subtasks from 0.

        Args:
            name: its name; a gauge that has it is replaced.
            obj: gives the number; it is called at the end of each epoch. What it raises fails the job.

        Raises:
            InvalidProgramError: as :meth:`counter`.
        """
        full_name = self._full_name(name, "gauge")
        if not callable(obj):
            raise refused(f"gauge takes a function that gives a number, not {shown(obj)}", InvalidTypeError)
        self._registry.register_gauge(full_name, obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Events in a second; ``<name>.count`` is how many there were since the job's first start.

        Args:
            name: its name.
            time_span_in_seconds: the time over which it is the mean.

        Raises:
            InvalidProgramError: as :meth:`counter`, when there is no time in the span, and when the meter has another.
        """
        expect(time_span_in_seconds, int, "meter(time_span_in_seconds)")
        if time_span_in_seconds <= 0:
            raise refused(f"meter: a time span of {time_span_in_seconds} seconds has no rate; give 1 or more")
        full_name = self._full_name(name, "meter")
        meter = self._registry.registered(full_name, Meter, lambda: Meter(time_span_in_seconds))
        if meter.time_span_in_seconds != time_span_in_seconds:
            raise refused(
                f"meter: {full_name!r} has a time span of {meter.time_span_in_seconds} seconds already: ask for it "
                f"with that, not with {time_span_in_seconds}"
            )
        return meter

    def distribution(self, name: str) -> Distribution:
        """Add a distribution: ``<name>.count``, ``.sum``, ``.mean``, ``.min``, ``.max`` since the job began to run.

        Raises:
            InvalidProgramError: as :meth:`counter`.
        """
        return self._registry.registered(self._full_name(name, "distribution"), Distribution, Distribution)

    def _full_name(self, name: str, method: str) -> str:
        expect(name, str, method)
        full_name = self._prefix + name
        if not name or full_name in OWN_NAMES:
            reason = "headrace itself measures operators under this name" if name else "it has no letter"
            raise refused(f"{method}: {name!r} cannot be the name of a metric, since {reason}")
        if self._groups:
            self._registry.groups.setdefault(full_name, self._groups)
        return full_name


public_module(__name__)
