"""Metrics and spans as records of the log, as Flink's Slf4j reporters write them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headrace.common.logs import get_logger
from headrace.metrics.registry import Summary
from headrace.metrics.samples import MeterReading, MetricKind, MetricSample, MetricValue
from headrace.reporters.reporter import MetricReporter, ReporterContext, TraceContext, TraceReporter
from headrace.reporters.spans import Span

logger = get_logger(__name__)

_HEADINGS = {
    MetricKind.COUNTER: "Counters",
    MetricKind.GAUGE: "Gauges",
    MetricKind.METER: "Meters",
    MetricKind.HISTOGRAM: "Histograms",
}


class LogReporter(MetricReporter):
    """Writes one record of level INFO at each interval, with a line for each metric."""

    def open(self, context: ReporterContext) -> None:
        self._context = context
        _warn_if_silent(f"metric reporter 'log' ({context.name})")

    def report(self, samples: Sequence[MetricSample]) -> None:
        lines = ["", "=========================== Starting metrics report ==========================="]
        for kind, heading in _HEADINGS.items():
            lines += ["", f"-- {heading} {'-' * (75 - len(heading))}"]
            lines += [self._line(sample) for sample in samples if sample.kind is kind]
        lines += ["", "=========================== Finished metrics report ==========================="]
        logger.info("%s", "\n".join(lines))

    def _line(self, sample: MetricSample) -> str:
        return f"{self._context.identifier(sample)}: {shown(sample.value)}"


def shown(value: MetricValue) -> str:
    """A value as text."""
    match value:
        case MeterReading():
            return f"{value.rate:g}"
        case Summary():
            return (
                f"count={value.count}, min={value.least:g}, max={value.greatest:g}, mean={value.mean:g}, "
                f"sum={value.total:g}"
            )
    return str(value)


class LogTraceReporter(TraceReporter):
    """Writes a record of level INFO for each span; its parts are in it."""

    def open(self, context: TraceContext) -> None:
        self._additional = context.additional
        _warn_if_silent(f"trace reporter 'log' ({context.name})")

    def report(self, spans: Sequence[Span]) -> None:
        for span in spans:
            logger.info("Reported span: %s", span_text(span, self._additional))


def _warn_if_silent(reporter: str) -> None:
    """Warn that the log leaves out what a reporter writes."""
    if not logger.isEnabledFor(logging.INFO):
        logger.warning(
            "%s writes to the log at level INFO, which is not logged: set headrace.log.level to INFO, or the level of "
            "the logger %s",
            reporter,
            __name__,
        )


def span_text(span: Span, additional: Mapping[str, str]) -> str:
    """A span as text."""
    attributes = ", ".join(f"{name}={value}" for name, value in {**span.attributes, **additional}.items())
    parts = "".join(f", {child.name} {_millis(child):.3f} ms" for child in span.children)
    error = f", error: {span.error}" if span.error else ""
    return f"{span.name} {_millis(span):.3f} ms{parts}{error} {{{attributes}}}"


def _millis(span: Span) -> float:
    return (span.end - span.start) / 1_000_000
