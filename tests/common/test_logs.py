"""Loggers whose records say of which job and epoch they are, and the formats that may be asked for."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logs import JsonFormatter, LogFields, LogSettings, get_logger, logging_of, with_fields
from tests.waiting import PATIENCE

SOURCE = Path(headrace.__file__).parent


@contextmanager
def unconfigured() -> Iterator[logging.Logger]:
    """The root logger as if nobody had set it up; no fixture, since pytest adds its handlers after those."""
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    before = root.handlers, root.level, py4j.level
    root.handlers = []
    try:
        yield root
    finally:
        root.handlers = before[0]
        root.setLevel(before[1])
        py4j.setLevel(before[2])
        logging.captureWarnings(False)


def fields_of(record: logging.LogRecord) -> tuple[object, ...]:
    return tuple(vars(record)[name] for name in ("job", "job_id", "epoch"))


def test_a_factory_of_the_programs_own_wins(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = logging.LogRecord(*args, **kwargs)
        record.job = "the program's"
        return record

    monkeypatch.setattr(logging, "_logRecordFactory", make)
    with logging_of(LogFields("fraud", "ab12", 4)):
        get_logger("headrace.tested").warning("there")
    assert [fields_of(record) for record in caplog.records] == [("the program's", "ab12", 4)]


@pytest.mark.parametrize("raises", [True, False])
def test_nothing_fails_by_a_handler_or_a_filter(
    raises: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class AwayHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ConnectionError("no log server")

    monkeypatch.setattr(logging, "raiseExceptions", raises)
    with unconfigured() as root:
        root.addHandler(AwayHandler())
        get_logger("headrace.tested").warning("there")
        try:
            raise ValueError("unseen")
        except ValueError:
            get_logger("headrace.tested").exception("and there")
    assert capsys.readouterr().err.count("ConnectionError: no log server\n") == (2 if raises else 0)


def test_a_record_is_of_the_line_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("headrace.tested")
    logger.warning("a")
    logger.error("b")
    first = test_a_record_is_of_the_line_that_logs.__code__.co_firstlineno
    assert [(record.pathname, record.lineno - first) for record in caplog.records] == [(__file__, 2), (__file__, 3)]


def test_records_have_the_fields_of_the_job_at_work(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("headrace.tested")
    fields = LogFields("fraud", "ab12")
    logger.warning("before")
    with logging_of(fields):
        logger.warning("inside")
        fields.epoch = 7
        logger.warning("in epoch %d", 7)
        logger.warning("another's", extra={"epoch": 3, "sink": "files"})
    logger.warning("after")
    nothing = (None, None, None)
    assert [fields_of(record) for record in caplog.records] == [
        nothing,
        ("fraud", "ab12", None),
        ("fraud", "ab12", 7),
        ("fraud", "ab12", 3),
        nothing,
    ]
    assert caplog.records[3].sink == "files"  # type: ignore[attr-defined]
    assert caplog.messages[2] == "in epoch 7"
    assert caplog.records[2].filename == "test_logs.py"


@pytest.mark.parametrize("handed_on", [True, False])
def test_other_threads_have_them_when_they_are_handed_on(handed_on: bool, caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        get_logger("headrace.tested").warning("there")

    with logging_of(LogFields("fraud")):
        thread = threading.Thread(target=with_fields(work) if handed_on else work)
    thread.start()
    thread.join(PATIENCE)
    assert fields_of(caplog.records[0])[0] == ("fraud" if handed_on else None)


def test_a_line_of_json_has_all_that_is_known(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("headrace.tested")
    with logging_of(LogFields("Räuber\n", epoch=2)):
        try:
            raise OSError("disk full")
        except OSError:
            logger.exception("cannot %s", "write", extra={"path": Path("/data")})
    line = JsonFormatter().format(caplog.records[0])
    assert "\n" not in line
    document = json.loads(line)
    assert document.pop("time").endswith("+00:00")
    assert document.pop("exception").endswith("OSError: disk full")
    assert document == {
        "level": "ERROR",
        "logger": "headrace.tested",
        "message": "cannot write",
        "job": "Räuber\n",
        "epoch": 2,
        "path": "/data",
    }


def strict(line: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)


def test_whatever_is_logged_makes_a_line_of_json() -> None:
    itself: list[Any] = []
    itself.append(itself)
    extra = {"time": 1.5, "level": 3, "nan": float("nan"), "keys": {(1, 2): 3}, "itself": itself, "odd": "a\ud800"}
    said = logging.getLogger("the.program").makeRecord(
        "the.program", logging.WARNING, "", 1, "half \udc80", (), None, extra=extra
    )
    line = JsonFormatter().format(said)
    assert line.encode()
    document = strict(line)
    assert document.pop("time").endswith("+00:00")
    assert document == {
        "level": "WARNING",
        "logger": "the.program",
        "message": "half \udc80",
        "time_": "1.5",
        "level_": 3,
        "nan": "nan",
        "keys": "{(1, 2): 3}",
        "itself": "[[...]]",
        "odd": "a\ud800",
    }


def test_arguments_that_do_not_fit_a_message_are_shown() -> None:
    record = logging.LogRecord("the.program", logging.ERROR, "", 1, "read %d", ("a",), None)
    message = strict(JsonFormatter().format(record))["message"]
    assert message.startswith("read %d ('a',) (TypeError: ")


def test_nothing_is_configured_unless_asked_for() -> None:
    with unconfigured() as root:
        assert LogSettings.of(Configuration()).apply()
        assert root.handlers == []


def test_a_setting_makes_the_root_logger_print(capsys: pytest.CaptureFixture[str]) -> None:
    settings = LogSettings.of(Configuration().set("headrace.log.format", "JSON"))
    with unconfigured() as root:
        assert settings.apply()
        assert settings.apply()  # a second job of the same program
        assert not LogSettings("DEBUG").apply(), "a third one that wants something else"
        assert len(root.handlers) == 1
        get_logger("headrace.tested").info("said")
        logging.getLogger("the.program").info("said as well")
        get_logger("headrace.tested").debug("not said")
        logging.getLogger("py4j.clientserver").info("not said")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["logger"], line["message"]) for line in lines] == [
        ("headrace.tested", "said"),
        ("the.program", "said as well"),
    ]


def test_a_level_alone_gives_lines_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured():
        assert LogSettings.of(Configuration().set("headrace.log.level", "debug")).apply()
        get_logger("headrace.tested").debug("seen")
    assert capsys.readouterr().err.endswith(" DEBUG headrace.tested: seen\n")


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_of_json_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured():
        assert LogSettings(format="json").apply()
        with logging_of(LogFields("fraud")):
            warnings.warn("set_buffer_timeout has no effect", stacklevel=1)
    document = json.loads(capsys.readouterr().err)
    assert document["logger"] == "py.warnings"
    assert document["level"] == "WARNING"
    assert document["job"] == "fraud"
    assert f"{__file__}:" in document["message"]
    assert "UserWarning: set_buffer_timeout has no effect" in document["message"]


def test_what_the_program_has_configured_holds() -> None:
    with unconfigured() as root:
        root.addHandler(logging.NullHandler())
        assert not LogSettings("INFO").apply()
        assert len(root.handlers) == 1


@pytest.mark.parametrize("key", ["headrace.log.level", "headrace.log.format"])
def test_other_levels_and_formats_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="one of"):
        Configuration().set(key, "loud").validate()


@pytest.mark.slow
def test_importing_configures_nothing_so_python_prints_warnings() -> None:
    program = """
import logging
import headrace.datastream, headrace.jobmanager.job_manager
from headrace.common.logs import get_logger
found = [name for name in logging.root.manager.loggerDict if name.split('.')[0] == 'headrace']
loggers = [logging.getLogger(name) for name in found] + [logging.getLogger()]
print(sum(len(logger.handlers) for logger in loggers), {logger.level for logger in loggers[:-1]}, len(found) > 5)
get_logger('headrace.jobmanager').warning('epoch 3 failed')
get_logger('headrace.jobmanager').info('not worth a line')
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert done.stdout == "0 {0} True\n"
    assert done.stderr == "epoch 3 failed\n"


def test_every_logger_knows_the_fields() -> None:
    """A module that asks ``logging`` itself would log records without them."""
    found = [path for path in SOURCE.rglob("*.py") if "logging.getLogger(" in path.read_text()]
    assert {path.relative_to(SOURCE).as_posix() for path in found} == {
        "client/displays.py",
        "common/logs.py",
        "reporters/opentelemetry.py",  # filters what other libraries log
        "server/cluster/service.py",  # keeps what the dispatcher logs
        "server/connections.py",  # uvicorn's protocol wants a logger of its own, which says errors alone
    }
