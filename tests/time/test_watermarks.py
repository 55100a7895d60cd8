"""Columnar generators: stamps that are laid out later are those that are laid out at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.time import watermark_strategy
from headrace.time.watermark_strategy import BoundedOutOfOrderness, ColumnarWatermarkGenerator, NoWatermarks

TIMES = st.integers(-20, 20) | st.sampled_from([NO_TIMESTAMP, NO_TIMESTAMP + 4, MAX_WATERMARK])
GENERATORS = st.builds(BoundedOutOfOrderness, st.sampled_from([0, 5, 2**40])) | st.just(NoWatermarks())


@settings(deadline=None)
@given(GENERATORS, st.lists(TIMES, max_size=12), st.sampled_from([MIN_WATERMARK, -3, 7]))
def test_stamps_do_not_depend_on_when_they_are_laid_out(
    generator: ColumnarWatermarkGenerator, times: list[int], watermark: int
) -> None:
    timestamps = np.array(times, np.int64)
    stamps, after = generator.stamp(timestamps, watermark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watermark_strategy, "_FEW", 2)
        later, after_later = generator.stamp_later(timestamps, watermark)
    assert after_later == after
    batch = Batch(Types.LONG(), timestamps, later, rows=times)
    if times:
        assert batch.last_watermark == stamps[-1]
        assert batch.slice(1, len(times)).watermarks.tolist() == stamps[1:].tolist()
    assert batch.watermarks.tolist() == stamps.tolist()
    assert batch.with_ordinals(np.arange(len(times))).watermarks.tolist() == stamps.tolist()
