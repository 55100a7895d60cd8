"""What is left out could have met no match, and of events of few keys with matches most are left out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.batch import Batch
from headrace.common.typeinfo import Types
from headrace.operators.base import KeyedBatch
from headrace.operators.pattern.pattern_filter import kept_events
from headrace.state.keys import KeyCodec

COUNT = 20_000
CODEC = KeyCodec.for_type(Types.LONG())


@pytest.mark.parametrize("window", [0, 7, 300])
@pytest.mark.parametrize("are_stored", [False, True])
def test_events_that_may_meet_a_match_are_kept(window: int, are_stored: bool) -> None:
    chance = np.random.default_rng(3)
    keys, times = chance.integers(0, 400, COUNT), np.sort(chance.integers(-900, 9_000, COUNT))
    begins = chance.random(COUNT) < 1 / 500
    batch = Batch(Types.LONG(), times, times, columns=pa.record_batch([pa.array(keys)], ["value"]))
    stored_keys = chance.integers(0, 400, 9 if are_stored else 0)
    stored_times = chance.integers(-900, 0, len(stored_keys))
    stored = CODEC.from_array(pa.array(stored_keys)).hashes
    keyed = KeyedBatch.of(batch, CODEC.from_array(pa.array(keys)))
    kept = kept_events(keyed, begins, window, stored, stored_times)
    opened = [*zip(keys[begins].tolist(), times[begins].tolist(), strict=True)]
    opened += [*zip(stored_keys.tolist(), stored_times.tolist(), strict=True)]
    needed = set(np.flatnonzero(begins).tolist())
    for key, since in opened:
        of_key = (keys == key) & (times >= since)
        needed |= set(np.flatnonzero(of_key & (times < since + window) if window else of_key).tolist())
    assert needed <= set(kept.tolist())
    assert np.array_equal(kept, np.unique(kept)), "in order, each once"
    assert window == 0 or len(kept) < 4 * len(needed) + COUNT // 20
