"""Programs that run in IPython, and those that do not."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.common.notebooks import is_notebook, shell, with_cells

CELL = "/tmp/ipykernel_17/1409.py"


class Compiler:
    def format_code_name(self, name: str) -> tuple[str, str] | None:
        return ("Cell", "In[3]") if name == CELL else None


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return run_in(monkeypatch, SimpleNamespace(kernel=object(), compile=Compiler()))


def run_in(monkeypatch: pytest.MonkeyPatch, found: Any) -> Any:
    ipython = ModuleType("IPython")
    monkeypatch.setattr(ipython, "get_ipython", lambda: found, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return found


def test_a_notebook_is_a_shell_with_a_kernel(kernel: SimpleNamespace) -> None:
    assert shell() is kernel
    assert is_notebook()


@pytest.mark.parametrize("found", [None, SimpleNamespace(compile=Compiler())], ids=["no shell", "a terminal"])
def test_others_are_none(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    run_in(monkeypatch, found)
    assert not is_notebook()


def test_no_ipython_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert shell() is None
    assert not is_notebook()
    assert with_cells(f"at {CELL}:2") == f"at {CELL}:2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"  at {CELL}:2 in <lambda>", "  at cell In[3], line 2 in <lambda>"),
        (f"<lambda> ({CELL}:12) holds it", "<lambda> (cell In[3], line 12) holds it"),
        ("  at /home/me/job.py:2 in total", "  at /home/me/job.py:2 in total"),
        ("record: {'at': '12:30'}", "record: {'at': '12:30'}"),
    ],
)
def test_lines_of_cells_are_called_as_the_notebook_calls_them(kernel: SimpleNamespace, text: str, shown: str) -> None:
    assert with_cells(text) == shown


def test_errors_are_shown_so(kernel: SimpleNamespace) -> None:
    error = InvalidProgramError(f"no operators\n  at {CELL}:2 in <module>")
    assert error._render_traceback_() == [
        "InvalidProgramError: no operators",
        "  at cell In[3], line 2 in <module>",
    ]


def raised_in_a_cell(error: Exception) -> Any:
    with pytest.raises(type(error)) as caught:
        exec(compile("\nraise error", CELL, "exec"), {"error": error})
    return caught.value


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (InvalidProgramError("no"), ["InvalidProgramError: no", "  at cell In[3], line 2 in <module>"]),
        (
            InvalidProgramError(f"no\n  at {CELL}:2 in <module>"),
            ["InvalidProgramError: no", "  at cell In[3], line 2 in <module>"],
        ),
        (UserFunctionError("failed"), ["UserFunctionError: failed"]),
    ],
    ids=["a mistake", "that tells its line", "of a job that runs"],
)
def test_a_mistake_is_shown_with_its_line(kernel: SimpleNamespace, error: Any, shown: list[str]) -> None:
    assert raised_in_a_cell(error)._render_traceback_() == shown


def test_an_ipython_that_names_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    run_in(monkeypatch, SimpleNamespace(kernel=object(), compile=object()))
    assert with_cells(f"at {CELL}:2") == f"at {CELL}:2"
