"""Templates and what they are given: numbers with units, times in words, tables and pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import headrace
from headrace.common import wording
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.masking import without_secrets
from headrace.server.dashboard.actions import ACTIONS
from headrace.server.dashboard.checkpoint_view import CheckpointView
from headrace.server.dashboard.findings import AHEAD_MILLIS, findings, first_line
from headrace.server.dashboard.job_view import FailureView, JobView, OperatorView
from headrace.server.dashboard.pictures import (
    LEAST_BARS,
    PARTS,
    epoch_seconds,
    graph_svg,
    heat,
    lineage_view,
    timeline_svg,
)
from headrace.server.dashboard.static_files import STATIC
from headrace.server.wire import to_document

DASH: Final = "\N{EN DASH}"
"""Stands for what there is none of."""

_MINUS: Final = "\N{MINUS SIGN}"

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

_MOST_RANKED: Final = 8

_FOLDERS: Final = re.compile(r"[/\\]")

_SMALL: Final = 100
"""Numbers from here on need no digits behind the point."""


def ago(millis: int, now: int) -> Markup:
    """A time in words, such as ``5 s ago``; the time itself is shown when it is pointed at."""
    seconds = (now - millis) / 1000
    text = f"{coarse(abs(seconds))} ago" if seconds >= 0 else f"in {coarse(-seconds)}"
    return _time(millis, "just now" if abs(seconds) < 1 else text)


def moment(millis: int) -> Markup:
    """A time as the clock shows it, with the date when it is pointed at."""
    return _time(millis, wording.point_in_time(millis - millis % 1000).removesuffix(" UTC"))


def _time(millis: int, text: str) -> Markup:
    absolute = wording.point_in_time(millis)
    try:
        machine = datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return Markup('<span title="{}">{}</span>').format(absolute, text)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, absolute, text)


def coarse(seconds: float) -> str:
    """A span with one unit: ``5 s``, ``12 min``, ``3 h``, ``2 days``."""
    for unit, name in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            number = int(seconds // unit)
            return f"{number:,} {'day' if name == 'days' and number == 1 else name}"
    return f"{int(seconds)} s"


def short(number: float | None) -> str:
    """A number that fits in a tile: ``950``, ``12.3 k``, ``4.56 M``."""
    if number is None:
        return DASH
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            divisor = 1e3 if unit == "k" else size
            return f"{number / divisor:,.{0 if abs(number / divisor) >= _SMALL else 1}f} {unit}"
    digits = 1 if 0 < abs(number) < 9.95 and number != int(number) else 0
    return f"{number:,.{digits}f}"


def percent(share: float | None) -> str:
    """``83%``; a dash where nothing is measured."""
    return DASH if share is None else f"{share:.0%}"


def lag(job: JobView, watermark: int | None) -> str:
    """The lag of event time behind the clock, in words; a dash where there is none."""
    if watermark is None or watermark == MIN_WATERMARK:
        return DASH
    if watermark == MAX_WATERMARK:
        return "at its end"
    return wording.span(max(0, job.clock - watermark) / 1000)


def event_time(watermark: int | None) -> Markup:
    """A watermark as pages show it, with its milliseconds as a tooltip."""
    if watermark is None:
        return Markup(DASH)
    if watermark in (MIN_WATERMARK, MAX_WATERMARK):
        return escape(wording.watermark(watermark))
    return Markup("<span title='{}'>{}</span>").format(
        f"{watermark} ms", wording.point_in_time(watermark).removesuffix(" UTC")
    )


def site(call_site: str) -> Markup:
    """A line of the program, without the folders of its file; these are shown when it is pointed at."""
    file, colon, rest = call_site.rpartition(":")
    return Markup('<span title="{}">{}</span>').format(call_site, f"{re.split(_FOLDERS, file)[-1]}{colon}{rest}")


def growth(per_second: float | None) -> str:
    """The growth of a state: ``+1.2 MB/min``."""
    if per_second is None:
        return DASH
    per_minute = round(per_second * 60)
    if abs(per_minute) < 1:
        return "steady"
    return f"{'+' if per_minute > 0 else _MINUS}{wording.size(abs(per_minute))}/min"


def change(by: int | None) -> str:
    """By how much a size has changed: ``+1.2 MB``."""
    if by is None:
        return DASH
    if not by:
        return "the same"
    return f"{'+' if by > 0 else _MINUS}{wording.size(abs(by))}"


def rounded(document: Any) -> Any:
    """The same with fewer digits: a chart shows no more."""
    if isinstance(document, float):
        return round(document, 3)
    if isinstance(document, dict):
        return {key: rounded(each) for key, each in document.items()}
    return [rounded(each) for each in document] if isinstance(document, list) else document


def rows_of_epochs(job: JobView) -> list[dict[str, Any]]:
    """The epochs as a table, the newest first."""
    return [
        {"epoch": epoch, "seconds": epoch_seconds(epoch), "parts": [getattr(epoch, part.field) for part in PARTS]}
        for epoch in reversed(job.epochs)
    ]


def shares_of_parts(job: JobView) -> list[float]:
    """Of the time of the last epochs, the share of each part."""
    total = sum(map(epoch_seconds, job.epochs)) or 1.0
    return [sum(getattr(epoch, part.field) for epoch in job.epochs) / total for part in PARTS]


def changes(job: JobView) -> Iterator[dict[str, Any]]:
    """Savepoints, rescales and restarts in one list, the newest first."""
    found: list[dict[str, Any]] = [
        {
            "time": each.begun,
            "what": "Savepoint",
            "state": "failed" if each.error else "complete" if each.place else "in progress",
            "epoch": each.epoch,
            "detail": each.error or each.place or each.directory,
            "seconds": (each.ended - each.begun) / 1000 if each.ended else None,
            "format": each.format,
        }
        for each in job.savepoints
    ]
    for each in job.resumptions:
        what = "Rescale" if each.is_rescaled else "Restart"
        detail = f"parallelism {each.parallelism}" if each.is_rescaled else "after a failure"
        about = {"state": "complete", "epoch": each.epoch, "detail": detail, "seconds": None, "format": ""}
        found.append({"time": each.time, "what": what, **about})
    yield from sorted(found, key=lambda each: -each["time"])


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures one after the other that say the same.

    Attributes:
        last: the last one.
        first: when the first one was, in milliseconds of the job's clock.
        count: the number of them.
    """

    last: FailureView
    first: int
    count: int


def failure_groups(job: JobView) -> list[FailureGroup]:
    """The failures of a job, the newest first; those that say the same are one."""
    found: list[FailureGroup] = []
    for failure in job.failures:
        if found and _says_the_same(found[-1].last, failure):
            found[-1] = FailureGroup(found[-1].last, failure.time, found[-1].count + 1)
        else:
            found.append(FailureGroup(failure, failure.time, 1))
    return found


def _says_the_same(one: FailureView, other: FailureView) -> bool:
    return (one.error, one.uid, one.message, one.record) == (other.error, other.uid, other.message, other.record)


def busiest(job: JobView) -> list[OperatorView]:
    """The operators in which time goes, the busiest first."""
    known = [operator for operator in job.operators if operator.busy is not None]
    return sorted(known, key=lambda operator: -(operator.busy or 0.0))[:_MOST_RANKED]


def holds_event_time(job: JobView) -> bool:
    """Return whether the slowest split is so far behind the fastest that it holds the others back."""
    reached = [s.watermark for s in job.splits if s.watermark not in (None, MIN_WATERMARK) and not s.is_idle]
    slowest = [s for s in job.splits if s.is_slowest]
    return bool(slowest) and bool(reached) and max(reached) - (slowest[0].watermark or 0) >= AHEAD_MILLIS


def statuses(job: JobView) -> list[dict[str, Any]]:
    """The statuses of the run, and how long each has lasted."""
    ends = [after.time for _, after in pairwise(job.history)]
    last = job.history[-1].time if job.is_over else job.now
    return [
        {"status": each.status, "time": each.time, "seconds": (end - each.time) / 1000}
        for each, end in zip(job.history, [*ends, last], strict=True)
    ]


def _without_secrets(value: Any) -> Any:
    """A value as pages show it: texts without secrets; what is markup already consists of such."""
    return without_secrets(value) if value.__class__ is str else value


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("headrace.server.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_without_secrets,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "number": wording.number,
    "size": wording.size,
    "span": wording.span,
    "precise_span": wording.precise_span,
    "rate": wording.rate,
    "watermark": wording.watermark,
    "short": short,
    "percent": percent,
    "first_line": first_line,
    "event_time": event_time,
    "growth": growth,
    "change": change,
    "heat": heat,
    "site": site,
    "moment": moment,
}
_ENVIRONMENT.globals |= {
    "ago": ago,
    "lag": lag,
    "parts": PARTS,
    "least_bars": LEAST_BARS,
    "actions": ACTIONS,
    "version": headrace.__version__,
    "static": {name: file.address for name, file in STATIC.items()},
}


def render(template: str, **context: Any) -> str:
    """A template with what it is given."""
    return _ENVIRONMENT.get_template(template).render(**context)


def jobs_context(jobs: Sequence[JobView]) -> dict[str, Any]:
    """The context of the overview: each job with its findings, those that run first."""
    lines = [{"job": job, "findings": findings(job)} for job in jobs]
    lines.sort(key=lambda line: (line["job"].is_over, -line["job"].started))  # type: ignore[attr-defined]
    return {"lines": lines}


def job_context(job: JobView, lineage: Mapping[str, Any] | None, logs: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """The context of the page of a job.

    Args:
        job: the job.
        lineage: the report of its lineage; None for none.
        logs: the logs of its process, each with its size.
    """
    shares = shares_of_parts(job)
    return {
        "job": job,
        "findings": findings(job),
        "graph": None if job.graph is None else Markup(graph_svg(job.graph, job.operators)),  # escaped where it is made
        "timeline": Markup(timeline_svg(job)),
        "rows_of_epochs": rows_of_epochs(job),
        "shares": shares,
        "shares_text": ", ".join(
            f"{part.name} {percent(s)}" for part, s in zip(PARTS, shares, strict=True) if s >= 0.005
        ),
        "changes": list(changes(job)),
        "failures": failure_groups(job),
        "busiest": busiest(job),
        "holds": holds_event_time(job),
        "statuses": statuses(job),
        "logs": logs,
        "lineage": None if lineage is None else lineage_view(lineage),
        "trend": _json(rounded(to_document(job.trend))),
    }


def checkpoint_context(job: JobView, checkpoint: CheckpointView) -> dict[str, Any]:
    """The context of the page of a checkpoint."""
    epoch = checkpoint.epoch
    return {
        "job": job,
        "checkpoint": checkpoint,
        "seconds": epoch_seconds(epoch),
        "parts_of_epoch": [(part, getattr(epoch, part.field)) for part in PARTS],
        "largest": max((size for each in checkpoint.operators for size in each.by_subtask), default=0),
    }


def _json(document: Any) -> Markup:
    """JSON inside an element of a page."""
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
