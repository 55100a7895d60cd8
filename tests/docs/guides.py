"""Runs a page of documentation as a reader would who types what it shows, from top to bottom, in an empty folder.

- A block with a title (``python title="job.py"``) is a file. Blocks of one title follow one another in it, and
  ``diff title="job.py"`` changes it: lines with ``-`` become those with ``+``.
- ``console`` is a terminal: after ``$`` a command, below it what the command prints; of a command that fails, errors
  count as printed, too. A line ``^C`` interrupts the command once it has printed what is above; its errors then end
  with what is below.
- ``python`` without a title is typed into one session for the whole page, which runs jobs in this process with one
  subtask. A ``text`` block right behind it is what it prints.
- ``...`` in what is printed stands for anything in a line, or on a line of its own for any number of lines.

Blocks of ``bash`` and ``ini`` are only looked at; any other is a mistake.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import headrace
from headrace.cli.main import app
from headrace.client.running import submission_defaults
from headrace.runtime.spark.settings import FRUGAL_JAVA
from tests.forks import Forks

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<attributes>[^\n`]*)\n(?P<text>.*?)^(?P=indent)``` *$", re.DOTALL | re.M
)
_TITLE = re.compile(r'title="([^"]+)"')
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.M)
_LOOKED_AT = ("bash", "ini")
"""Languages of blocks that are not run: commands that install something, files of other programs."""
_INTERRUPT = "^C\n"
_WIDTH = 110
_PLUGIN = ("-p", "headrace.pytest_plugin")
"""The package that is tested may not be installed."""
_SESSION_SETTINGS = {"headrace.runtime": "local", "parallelism.default": "1"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        language: as the fence says; may be empty.
        title: the name of the file that it is, if it is one.
        text: what is inside.
        line: the number of its first line in the page.
    """

    language: str
    title: str
    text: str
    line: int

    @property
    def is_output(self) -> bool:
        """Whether it is what the session prints in the block before."""
        return self.language == "text" and not self.title


_NOTHING = Block("", "", "", 0)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, from top to bottom."""
    text = page.read_text()
    return [
        Block(
            found["language"],
            title[1] if (title := _TITLE.search(found["attributes"])) else "",
            textwrap.dedent(found["text"]),
            text.count("\n", 0, found.start("text")) + 1,
        )
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a ``console`` block, each with what it prints."""
    return [(found["command"].replace("\\\n", ""), found["output"]) for found in _COMMAND.finditer(block.text)]


def matches(printed: str, shown: str) -> bool:
    """Whether a program has printed what the page shows."""
    pattern = "".join(map(_pattern_of, shown.strip().splitlines()))
    return re.fullmatch(pattern, _plain(printed)) is not None


def _pattern_of(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*?"
    return ".*?".join(map(re.escape, line.split("..."))) + r"\n"


def _plain(printed: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())


@dataclass
class Reader:
    """Somebody who follows a page.

    Attributes:
        page: the page.
        folder: where its files are made and its commands run; also the working directory.
        forks: start its commands there which need a process.
    """

    page: Path
    folder: Path
    forks: Forks
    _session: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    _output: Block = field(default_factory=lambda: _NOTHING)

    def follow(self) -> int:
        """Do all that the page shows; the number of blocks that were files, commands or a session.

        Programs that are shown and not run are Python, at least.

        Raises:
            AssertionError: when something prints something else than the page shows.
        """
        found = blocks(self.page)
        done = 0
        with _forgetting_modules_of(self.folder), submission_defaults(_SESSION_SETTINGS):
            for block, following in zip(found, [*found[1:], _NOTHING], strict=True):
                done += self._step(block, following)
        for program in self.folder.glob("**/*.py"):
            compile(program.read_text(), program.name, "exec")
        return done

    def _step(self, block: Block, following: Block) -> bool:
        if block.title:
            self._write(block)
        elif block.language == "console":
            found = commands(block)
            assert found, f"{self.page.name}, line {block.line}: no command begins with $"
            for command, shown in found:
                self._command(command, shown, block)
        elif block.language == "python":
            self._expect(self._type(block), following.text if following.is_output else "", block, "the session")
            self._output = following
        else:
            is_seen = block is self._output or block.language in _LOOKED_AT
            assert is_seen, f"{self.page.name}, line {block.line}: nothing is done with this block"
            return False
        return True

    def _write(self, block: Block) -> None:
        path = self.folder / block.title
        if block.language == "diff":
            self._change(path, block)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(block.text)

    def _change(self, path: Path, block: Block) -> None:
        lines = [(line[:1], line[2:]) for line in block.text.splitlines(keepends=True)]
        before = "".join(text or "\n" for mark, text in lines if mark != "+")
        after = "".join(text or "\n" for mark, text in lines if mark != "-")
        program = path.read_text()
        assert program.count(before) == 1, f"{self.page.name}, line {block.line}: {path.name} has not (once)\n{before}"
        path.write_text(program.replace(before, after))

    def _command(self, command: str, shown: str, block: Block) -> None:
        if _INTERRUPT in shown:
            self._interrupt(command, *shown.split(_INTERRUPT), block)
            return
        program, *arguments = shlex.split(command)
        if program == "headrace":
            printed = _headrace(arguments)
        elif program == "pytest":
            ended = self.forks.start_module(program, *_PLUGIN, *arguments).wait()
            printed = ended.output + ended.errors
        else:
            printed = self._shell(command)
        self._expect(printed, shown, block, command)

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=self.folder, env=_environment(), capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def _interrupt(self, command: str, shown: str, shown_behind: str, block: Block) -> None:
        program, *arguments = shlex.split(command)
        assert program == "headrace", f"{self.page.name}, line {block.line}: only headrace is interrupted"
        running = self.forks.start_command(*arguments)
        running.wait_for_output(len(shown.splitlines()))
        running.interrupt()
        ended = running.wait()
        self._expect(ended.output, shown, block, command)
        self._expect(ended.errors, f"...\n{shown_behind}", block, f"{command}, after ^C,")

    def _type(self, block: Block) -> str:
        code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec", dont_inherit=True)
        with redirect_stdout(io.StringIO()) as printed:
            exec(code, self._session)
        return printed.getvalue()

    def _expect(self, printed: str, shown: str, block: Block, what: str) -> None:
        assert matches(printed, shown), (
            f"{self.page.name}, line {block.line}: {what} printed\n{_plain(printed)}\ninstead of\n{shown.strip()}"
        )


def _headrace(arguments: list[str]) -> str:
    """What the command prints, run in this process."""
    ran = CliRunner(env={"COLUMNS": str(_WIDTH)}).invoke(app, arguments)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.stdout if ran.exit_code == 0 else ran.output


def _environment() -> dict[str, str]:
    """That of commands: they find this Python's programs first, and the package that is tested."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    packages = str(Path(headrace.__file__).parents[1])
    java = {"SPARK_SUBMIT_OPTS": FRUGAL_JAVA}  # for programs that start a Spark of their own
    return {**os.environ, **java, "PATH": path, "PYTHONPATH": packages}


@contextmanager
def _forgetting_modules_of(folder: Path) -> Iterator[None]:
    """The next page may have modules of the same names."""
    path = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
