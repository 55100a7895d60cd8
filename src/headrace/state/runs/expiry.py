"""What runs say of the expiries of their elements: in which time they are, and when half of them will have passed.

That is said of the rows of each run, and not of the state: a start may give a state another time to live, or none, and
runs from before and after are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.state.runs.layout import EXPIRY, FORMER_TTL, HALF_EXPIRED, TTL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.state.runs.run import Run, RunStore
    from headrace.state.ttl import TtlScale


def aged(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run with these rows: it says when half of the elements will have expired, if ever."""
    known = _without_age(meta)
    if scale_of(meta) is None or EXPIRY not in batch.schema.names:
        return known
    expiries = batch.column(EXPIRY)
    expiries = expiries.flatten() if pa.types.is_list(expiries.type) else expiries
    times = expiries.drop_null().to_numpy()
    half = (len(expiries) + 1) // 2
    if not half or len(times) < half:
        return known
    return {**known, HALF_EXPIRED: int(np.partition(times, half - 1)[half - 1])}


def scale_of(meta: dict[str, Any]) -> TtlScale | None:
    """In which time the expiries of a run are; None where it has none, or none that count."""
    scale: TtlScale | None = meta.get(TTL) or meta.get(FORMER_TTL)
    return scale


def expires(run: Run) -> bool:
    """Whether elements of a run have expiries that count, or will when the state has a time to live again."""
    return scale_of(run.meta) is not None and EXPIRY in run.section.schema.names


def merged_scale(runs: Sequence[Run]) -> dict[str, Any]:
    """What a run that several (oldest first) are merged into says of the time in which its expiries are.

    Where runs differ, which a state that some tasks have not opened can leave, the newest ones count: elements of the
    others were there when the state got another time to live, and do not expire until they are written again.
    """
    present = runs[-1].meta.get(TTL)
    if present:
        return {TTL: present}
    former = next((scale_of(run.meta) for run in reversed(runs) if expires(run)), None)
    return {} if former is None else {FORMER_TTL: former}


def follow(store: RunStore, scale: TtlScale | None) -> None:
    """Has the runs of a store say what becomes of their expiries, now that the state has this time to live, or none.

    Without one they are kept. In another time they never count again: their elements age from their next write on.
    """
    for run in store.runs:
        known = scale_of(run.meta)
        if known is None:
            continue
        others = {entry: said for entry, said in run.meta.items() if entry not in (TTL, FORMER_TTL)}
        if scale is None:
            meta = {**others, FORMER_TTL: known}
        else:
            meta = {**others, TTL: scale} if known == scale else _without_age(others)
        if meta != run.meta:
            store.substitute([run], [run.with_meta(meta)])


def _without_age(meta: dict[str, Any]) -> dict[str, Any]:
    return {entry: said for entry, said in meta.items() if entry != HALF_EXPIRED}
