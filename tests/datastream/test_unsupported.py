"""What Flink has and has no effect here, or only in part: calling it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.common.errors import UnsupportedOperationError
from headrace.common.time import Time
from headrace.datastream.streams.other_names import WITHOUT_EFFECT, WITHOUT_EFFECT_ON_SINKS
from headrace.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from headrace.datastream import StreamExecutionEnvironment


@pytest.mark.parametrize("method", WITHOUT_EFFECT)
def test_settings_of_streams_without_effect(env: StreamExecutionEnvironment, method: str) -> None:
    stream = env.from_sequence(1, 2)
    sink = stream.print()
    for target in (stream, sink) if method in WITHOUT_EFFECT_ON_SINKS else (stream,):
        with pytest.warns(UserWarning, match=rf"{method}\(\) has no effect: \w") as caught:
            assert getattr(target, method)("x") is target
        assert caught[0].filename == __file__


def test_watermark_alignment() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(UnsupportedOperationError, match=r"group 'g'\) is not supported yet: leave .* out"):
        strategy.with_watermark_alignment("g", Time.seconds(5))
