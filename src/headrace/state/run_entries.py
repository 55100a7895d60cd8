"""What an index says about a run, besides the place of its section; and what follows from that alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.state.runs import Run
from headrace.state.runs.run import weight_of

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.state.runs import HashRange
    from headrace.state.runs.sections import Section

Entry = dict[str, Any]


class RunHead(NamedTuple):
    """What is known of a run without its rows.

    Attributes:
        uid: the operator.
        store: the store that it is in.
        meta: what its writer said about it.
        schema: its columns.
    """

    uid: str
    store: str
    meta: dict[str, Any]
    schema: pa.Schema


def entry_of_run(run: Run) -> Entry:
    """What an index says about a run."""
    entry = {"hashes": list(run.hashes), "whole": run.whole, "origin": run.origin, "meta": run.meta}
    return entry if run.span == run.hashes else {**entry, "span": list(run.span)}


def run_of_entry(entry: Entry, section: Section) -> Run:
    """The run that :func:`entry_of_run` described."""
    low, high = entry["hashes"]
    return Run(section, entry["meta"], (low, high), whole=entry["whole"], origin=entry["origin"], span=_span(entry))


def part_of_entry(entry: Entry, hashes: HashRange) -> Entry | None:
    """What an index would say about a run that is restricted to a range of hashes; None when it has none of these."""
    low, high = max(entry["hashes"][0], hashes[0]), min(entry["hashes"][1], hashes[1])
    if low >= high:
        return None
    if [low, high] == list(entry["hashes"]):
        return entry
    return {**entry, "hashes": [low, high], "whole": False, "span": list(_span(entry))}


def weight_of_entry(entry: Entry) -> int:
    """About how many rows, or elements of their lists, a merge of the run has to move."""
    return int(weight_of(entry["meta"], entry["rows"]) * _share(entry)) or 1


def size_of_entry(entry: Entry) -> int:
    """About how many bytes these take."""
    return int(entry["size"] * _share(entry))


def _share(entry: Entry) -> float:
    """Which part of the rows count: hashes are spread evenly."""
    (low, high), (first, end) = entry["hashes"], _span(entry)
    share: float = (high - low) / (end - first)
    return share


def _span(entry: Entry) -> HashRange:
    """The hashes that all rows have; earlier versions have not noted it."""
    first, end = entry["span"] if "span" in entry else entry["hashes"]
    return first, end
