"""Whose failure an exception is, and at which line it is told."""

from __future__ import annotations

import importlib
import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.errors import UserFunctionError
from headrace.datastream import StreamExecutionEnvironment
from headrace.operators.base import OperatorContext
from headrace.operators.user_code import EpochCancelledError, is_interruption, record_text, user_error

CONTEXT = OperatorContext("name", "uid", 0, 1, 128, UNKNOWN_CALL_SITE)


def test_an_epoch_that_is_given_up_is_nobodys_failure() -> None:
    given_up = EpochCancelledError()
    assert user_error(given_up, CONTEXT) is given_up


def test_ctrl_c_in_the_main_thread_is_nobodys_failure() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_interruption(KeyboardInterrupt())))
    thread.start()
    thread.join()
    assert found == [False], "Python interrupts the main thread only, so a function has raised it"
    try:
        assert is_interruption(KeyboardInterrupt())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        assert not is_interruption(KeyboardInterrupt()), "no handler of Python's would raise one"
    finally:
        signal.signal(signal.SIGINT, before)


def failing(function: Any, value: Any) -> str:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    )
    env.from_collection([value]).map(function).print()
    with pytest.raises(UserFunctionError) as failed:
        env.execute()
    return str(failed.value)


def parsed(value: str) -> Any:
    return json.loads(value)


def test_what_fails_in_the_standard_library_is_at_the_line_that_called_it() -> None:
    assert f"  at {__file__}:{parsed.__code__.co_firstlineno + 1} in parsed\n" in failing(parsed, "{")
    assert re.search(r"  at .*json.__init__\.py:\d+ in loads\n", failing(json.loads, "{"))


def test_a_program_that_is_installed_has_its_line_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    module = packages / "installed_rates.py"
    module.write_text("import json\n\ndef rate(value):\n    return json.loads(value)\n")
    monkeypatch.syspath_prepend(packages)
    told = failing(importlib.import_module("installed_rates").rate, "{")
    assert f"  at {module}:4 in rate\n" in told


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"start": [1], "middle": [2], "end": []}, "{'start': [1], 'middle': [2], 'end': []}"),
        (dict.fromkeys(range(21, 0, -1), ""), "{21: '', 20: '', "),
        ({}, "{}"),
    ],
)
def test_a_record_is_shown_with_its_fields_in_their_order(record: dict[Any, Any], text: str) -> None:
    shown = record_text(record)
    assert shown.startswith(text)
    assert shown.endswith("2: '', ...}" if len(record) > 20 else text)
