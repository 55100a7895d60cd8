"""What the access log example has to find, computed record by record in plain Python.

Knows nothing of headrace: the watermark before a record is the largest timestamp before it, less the bound, less 1 ms;
a record is too late for a window whose last millisecond the watermark has reached.
"""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEN_SECONDS, MINUTE = 10_000, 60_000
QUARTER, HOUR = 15 * MINUTE, 60 * MINUTE
GAP = 30 * MINUTE


@dataclass(frozen=True)
class Seen:
    """A request with the watermark that it met."""

    visitor: str
    time: int
    page: str
    status: int
    watermark: int

    def is_late_for(self, window_end: int) -> bool:
        return window_end - 1 <= self.watermark


def parse(line: str) -> tuple[str, int, str, int]:
    """Taken apart at quotes and brackets, not with the example's pattern."""
    before, request, after, _, _, _, rest = line.split('"')
    assert rest == ""
    text = before[before.index("[") + 1 : before.index("]")]
    time = datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").astimezone(UTC)
    page = request.split(" ")[1].split("?")[0]
    return before.split(" ")[0], round(time.timestamp() * 1000), page, int(after.split()[0])


class Oracle:
    """All results for one bound.

    Args:
        log: the compressed log.
        bound: by how many seconds it may be out of order.
    """

    def __init__(self, log: Path, bound: int) -> None:
        self.bad_lines: list[str] = []
        self.seen = list(self._replay(gzip.decompress(log.read_bytes()).decode().splitlines(), bound * 1000))

    def _replay(self, lines: list[str], bound: int) -> Iterator[Seen]:
        watermark = -(2**63)
        for line in lines:
            try:
                visitor, time, page, status = parse(line)
            except ValueError:
                self.bad_lines.append(line)
                continue
            yield Seen(visitor, time, page, status, watermark)
            watermark = max(watermark, time - bound - 1)

    def late_requests(self) -> list[dict[str, Any]]:
        late = [seen for seen in self.seen if seen.time <= seen.watermark]
        return [{"visitor": s.visitor, "time": s.time, "page": s.page, "status": s.status} for s in late]

    def sessions(self) -> list[dict[str, Any]]:
        on_time = sorted((seen.visitor, seen.time) for seen in self.seen if seen.time > seen.watermark)
        found = []
        for visitor, group in groupby(on_time, key=lambda pair: pair[0]):
            open_session: dict[str, Any] | None = None
            for _, time in group:
                if open_session is None or time - open_session["end"] > GAP:
                    open_session = {"visitor": visitor, "start": time, "end": time, "requests": 0}
                    found.append(open_session)
                open_session["end"] = time
                open_session["requests"] += 1
        return found

    def top_pages(self) -> list[dict[str, Any]]:
        counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for seen in self.seen:
            for end in hours_around(seen.time):
                if not seen.is_late_for(end):
                    counts[end][seen.page] += 1
        return [
            {"window_start": end - HOUR, "window_end": end, "rank": rank, "page": page, "requests": requests}
            for end, pages in counts.items()
            for rank, (page, requests) in enumerate(sorted(pages.items(), key=lambda i: (-i[1], i[0]))[:5], start=1)
        ]

    def error_rates(self) -> list[dict[str, Any]]:
        requests: Counter[int] = Counter()
        errors: Counter[int] = Counter()
        for seen in self.seen:
            window = seen.time // TEN_SECONDS
            if not seen.is_late_for((window + 1) * TEN_SECONDS):
                requests[window] += 1
                errors[window] += seen.status // 100 in (4, 5)
        return [
            {
                "since": datetime.fromtimestamp(window * 10, UTC).isoformat(" ", "seconds")[:19],
                "requests": total,
                "errors": errors[window],
                "rate": round(errors[window] / total, 4),
            }
            for window, total in requests.items()
        ]

    def dropped(self) -> int:
        """Requests that no window takes, in either of the two window operators."""
        hours = sum(all(seen.is_late_for(end) for end in hours_around(seen.time)) for seen in self.seen)
        tens = sum(seen.is_late_for((seen.time // TEN_SECONDS + 1) * TEN_SECONDS) for seen in self.seen)
        return hours + tens


def hours_around(time: int) -> range:
    """The ends of the sliding hours that a time belongs to."""
    first = time - time % QUARTER + QUARTER
    return range(first, first + HOUR, QUARTER)
