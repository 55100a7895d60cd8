"""When the elements of a run will have expired: what says that it is worth writing anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.state.runs.layout import EXPIRY, HALF_EXPIRED, TTL

if TYPE_CHECKING:
    from headrace.state.runs.run import Run, RunStore


def aged(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run with these rows: it says when half of the elements will have expired, if ever."""
    known = {entry: said for entry, said in meta.items() if entry != HALF_EXPIRED}
    if not meta.get(TTL) or EXPIRY not in batch.schema.names:
        return known
    expiries = batch.column(EXPIRY)
    expiries = expiries.flatten() if pa.types.is_list(expiries.type) else expiries
    times = expiries.drop_null().to_numpy()
    half = (len(expiries) + 1) // 2
    if not half or len(times) < half:
        return known
    return {**known, HALF_EXPIRED: int(np.partition(times, half - 1)[half - 1])}


def forget_expiries(store: RunStore, run: Run, scale: Any) -> None:
    """Rewrites a run whose elements aged in another time: they begin anew, once they are written again."""
    batch = run.batch
    store.replace([run], batch.drop_columns([EXPIRY]), {**aged(run.meta, batch.drop_columns([EXPIRY])), TTL: scale})
