"""How a program's end is told."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from headrace.cli.output import report
from headrace.cli.run import run_script
from headrace.common.errors import UserFunctionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (SystemExit(), 0, ""),
        (SystemExit(0), 0, ""),
        (SystemExit(7), 7, ""),
        (SystemExit("no input [here]"), 1, "no input [here]\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (UserFunctionError("operator 'a' [x] failed"), 1, "error: operator 'a' [x] failed\n"),
    ],
)
def test_exit_codes(error: BaseException, code: int, text: str, console: Console) -> None:
    assert report(error, console) == code
    assert said(console) == text


def test_a_misspelt_name_comes_with_what_was_meant(console: Console, tmp_path: Path) -> None:
    script = tmp_path / "misspelt.py"
    script.write_text("import collections\ncollections.namedtupl\n")
    with pytest.raises(AttributeError) as caught:
        run_script(script, [])
    assert report(caught.value, console, script) == 1
    assert said(console).startswith("Traceback (most recent call last):\n")
    assert "Did you mean: 'namedtuple'?" in said(console)
    assert "run_script" not in said(console)


def test_an_error_of_headrace_shows_its_notes_when_asked_to(console: Console) -> None:
    error = UserFunctionError("division failed")
    error.add_note("in the task: line 3")
    assert report(raised(error), console, full=True) == 1
    assert "Traceback" in said(console)
    assert said(console).endswith("UserFunctionError: division failed\nin the task: line 3\n")


def test_a_mistake_of_the_program_shows_its_own_lines_only(script: Callable[..., Path], console: Console) -> None:
    path = script("def work():\n    return 1 / 0\n\nwork()\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_script(path, [])
    assert report(caught.value, console, path) == 1
    assert said(console).startswith(f'Traceback (most recent call last):\n  File "{path}", line 5, in <module>')
    assert "runpy" not in said(console)


def test_a_program_that_is_no_python_shows_where(script: Callable[..., Path], console: Console) -> None:
    path = script("if True print(1)\n")
    with pytest.raises(SyntaxError) as caught:
        run_script(path, [])
    assert report(caught.value, console, path) == 1
    assert f'File "{path}", line 2' in said(console)
    assert "runpy" not in said(console)
