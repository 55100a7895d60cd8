"""What Flink has and has no effect here, or only in part: calling it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.datastream import StreamExecutionEnvironment


@pytest.mark.parametrize(
    "method", ["set_buffer_timeout", "disable_operator_chaining", "enable_changelog_state_backend"]
)
def test_settings_of_environments_without_effect(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.warns(UserWarning, match=rf"StreamExecutionEnvironment\.{method}\(\) has no effect: "):
        assert getattr(env, method)(1) is env


def test_execution_config_settings_without_effect(env: StreamExecutionEnvironment) -> None:
    config: Any = env.get_config()
    with pytest.warns(UserWarning, match="a watermark is in force from the record on"):
        assert config.set_auto_watermark_interval(100) is config
