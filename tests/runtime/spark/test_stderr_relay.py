"""What Java writes to a terminal appears above what is drawn there; elsewhere Java writes for itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from headrace.runtime.spark.session_start import StderrRelay, destination


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_is_between_only_where_there_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert destination() == subprocess.PIPE
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert destination() is None
    monkeypatch.setattr(sys, "stderr", None)
    assert destination() is None


def test_lines_go_to_what_is_the_standard_error_when_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    before, panel = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", before)
    reader, writer = os.pipe()
    relay = StderrRelay(os.fdopen(reader, "rb"))
    monkeypatch.setattr(sys, "stderr", panel)
    with os.fdopen(writer, "wb") as java:
        java.write("WARNING: \xe4\n".encode("latin-1") + b"the last line")
    relay.join()
    relay.close()
    assert (before.getvalue(), panel.getvalue()) == ("", "WARNING: \ufffd\nthe last line")


def test_nothing_is_passed_on_once_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    reader, writer = os.pipe()
    relay = StderrRelay(os.fdopen(reader, "rb"))
    relay.close()
    with os.fdopen(writer, "wb") as java:
        java.write(b"x\n" * 100_000)  # more than a pipe holds: it is read all the same
    relay.join()
    assert shown.getvalue() == ""
