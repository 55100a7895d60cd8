"""A program runs as if Python itself had started it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from headrace.cli.run import run_script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_program_is_main_with_its_own_arguments_and_folder(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = script("import sys\nprint(__name__, sys.argv, sys.path[0], __file__)\n")
    argv, search_path = sys.argv, list(sys.path)
    run_script(path, ["--input", "a"])
    folder = path.parent.resolve()
    assert capsys.readouterr().out == f"__main__ {[str(path), '--input', 'a']} {folder} {path}\n"
    assert sys.argv is argv
    assert sys.path == search_path


def test_what_a_program_raises_comes_through(script: Callable[..., Path]) -> None:
    argv = sys.argv
    with pytest.raises(SystemExit) as caught:
        run_script(script("raise SystemExit(3)\n"), [])
    assert caught.value.code == 3
    assert sys.argv is argv
