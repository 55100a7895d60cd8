"""The sub-commands, from arguments to exit code."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

import headrace
from headrace.cli import install
from headrace.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rich.console import Console

    from tests.forks import Forks

runner = CliRunner()

ENDLESS = 10**12


def invoke(*arguments: object) -> Result:
    return runner.invoke(app, list(map(str, arguments)))


def test_version_names_what_it_stands_on() -> None:
    result = invoke("version")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"headrace {headrace.__version__} (Python 3.")
    assert "pyarrow" in result.stdout


def test_version_is_an_option_as_well() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == invoke("version").stdout


def test_without_a_command_it_shows_help() -> None:
    result = invoke()
    assert all(name in result.output for name in ("run", "explain", "doctor", "checkpoints", "version"))


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all below it."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, *path, name)


def test_help_shows_what_is_in_brackets() -> None:
    found = {}
    for path, command in commands(get_command(app)):
        texts = " ".join(text or "" for text in [command.help, *(getattr(each, "help", "") for each in command.params)])
        if names := re.findall(r"\w+\\?\[\w[^\]]*\]", texts):
            found[path] = names
            shown = invoke(*path, "--help").output
            assert all(name.replace("\\", "") in shown for name in names)
    assert found[("kafka",)] == ["headrace\\[kafka-broker]"]
    assert "needs headrace[kafka-broker]" in re.sub(r"(\x1b\[[0-9;]*m|[\s│])+", " ", invoke("--help").output)


def test_run_runs_a_program_and_says_how_it_went(script: Callable[..., Path]) -> None:
    result = invoke("run", "-p", 1, "--runtime", "local", script("execute(doubling(5))\n"))
    assert result.exit_code == 0
    assert result.stdout.split() == ["0", "2", "4", "6", "8"]
    first, last = result.stderr.splitlines()
    assert first.startswith("job 'doubling' starts afresh")
    assert last.startswith("job 'doubling' ended at epoch 1: 5 records in ")


def test_what_follows_the_program_belongs_to_it(script: Callable[..., Path]) -> None:
    result = invoke("run", script("print(sys.argv[1:])\n"), "-p", "3", "--runtime", "x", "-D", "--", "file")
    assert result.stdout == "['-p', '3', '--runtime', 'x', '-D', '--', 'file']\n"


def test_the_command_line_wins_over_the_programs_own_settings(script: Callable[..., Path]) -> None:
    path = script("execute(doubling(5), configuration=Configuration().set('headrace.runtime', 'spark'))\n")
    assert invoke("run", "-D", "headrace.runtime=local", path).exit_code == 0


def test_a_program_goes_on_where_it_was(script: Callable[..., Path], tmp_path: Path) -> None:
    path = script("execute(doubling(5))\n")
    arguments = ("run", "--runtime", "local", "--checkpoint-dir", tmp_path / "checkpoints", path)
    assert invoke(*arguments).exit_code == 0
    again = invoke(*arguments)
    assert again.stdout == ""
    assert again.stderr.startswith("restored epoch 1 of job 'doubling'")


def test_no_progress_still_says_how_jobs_begin_and_end(script: Callable[..., Path]) -> None:
    result = invoke("run", "--runtime", "local", "--no-progress", script("execute(doubling(5))\n"))
    assert len(result.stderr.splitlines()) == 2


def test_lines_of_json_have_nothing_plain_between_them(forks: Forks, script: Callable[..., Path]) -> None:
    program = script("""
        import logging

        graph = doubling(5)
        graph.update(1, spec=specs.MapSpec(lambda value: logging.getLogger("shop").info("seen") or value, Types.LONG()))
        execute(graph)
    """)
    ended = forks.start_command("run", "--runtime", "local", "-D", "headrace.log.format=json", program).wait()
    lines = [json.loads(line) for line in ended.errors.splitlines()]
    assert len([line for line in lines if "starts afresh" in line["message"]]) == 1
    assert len({line["job_id"] for line in lines if line["message"] == "seen"} - {None}) == 1
    assert lines[-1]["logger"] == "headrace.client.displays"
    assert lines[-1]["message"].startswith("job 'doubling' ended at epoch 1: 5 records in ")


@pytest.mark.parametrize(
    ("text", "said", "has_traceback"),
    [
        ("execute(StreamGraph())\n", "the job has no operators", False),
        ("1 / 0\n", "ZeroDivisionError: division by zero", True),
        pytest.param("pass\n", "ended without a job", False, marks=pytest.mark.slow),
    ],
    ids=["headrace", "program", "no job"],
)
def test_the_error_that_ends_the_command_is_a_line_of_json(
    forks: Forks, script: Callable[..., Path], text: str, said: str, has_traceback: bool
) -> None:
    program = script(text)
    ended = forks.start_command("run", "--runtime", "local", "-D", "headrace.log.format=json", program).wait()
    assert ended.code == 1
    last = [json.loads(line) for line in ended.errors.splitlines()][-1]
    assert (last["level"], last["logger"]) == ("ERROR", "headrace.cli.output")
    assert said in last["message"]
    assert (f'File "{program}"' in last.get("exception", "")) == has_traceback


def test_an_error_of_headrace_is_one_message(script: Callable[..., Path]) -> None:
    path = script("execute(StreamGraph())\n")
    result = invoke("run", "--runtime", "local", path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the job has no operators")
    assert "Traceback" not in result.stderr
    assert "Traceback" in invoke("run", "--runtime", "local", "--traceback", path).stderr


def test_a_failing_function_is_one_message(script: Callable[..., Path]) -> None:
    path = script("""
        graph = doubling(5)
        graph.update(1, spec=specs.MapSpec(lambda value: 1 // (value - 3), Types.LONG()))
        execute(graph)
    """)
    result = invoke("run", "--runtime", "local", path)
    assert result.exit_code == 1
    assert "error: operator 'double'" in result.stderr
    assert "job 'doubling' failed" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_mistake_shows_the_line_of_the_program(script: Callable[..., Path]) -> None:
    path = script("from headrace.datastream import SinkFunction\n")
    result = invoke("run", "--runtime", "local", path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith(f"  at {path}:2 in <module>\n")


def test_a_program_that_never_executes_says_so(script: Callable[..., Path]) -> None:
    path = script("print('built')\n")
    result = invoke("run", "--runtime", "local", path)
    assert (result.exit_code, result.stdout) == (1, "built\n")
    assert result.stderr == f"error: {path} ended without a job: it never came to execute()\n"


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)"])
def test_a_program_may_say_itself_that_it_wanted_no_job(end: str, script: Callable[..., Path]) -> None:
    result = invoke("run", "--runtime", "local", script(f"{end}\n"))
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_option_of_the_command_wins_over_the_setting(script: Callable[..., Path]) -> None:
    arguments = ("run", "--runtime", "local", "-D", "headrace.progress=false")
    path = script("import headrace.client.running as d\nprint(type(d.current_defaults().listener).__name__)\n")
    assert invoke(*arguments, path).stdout == "ProgressListener\n"
    assert invoke(*arguments, "--progress", path).stdout == "LineListener\n"


def test_the_programs_exit_code_is_the_commands(script: Callable[..., Path]) -> None:
    assert invoke("run", script("sys.exit(4)\n")).exit_code == 4


def test_a_bad_setting_stops_before_the_program_runs(script: Callable[..., Path]) -> None:
    result = invoke("run", "-D", "headrace.runtme=local", script("print('ran')\n"))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean headrace.runtime" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("run", "nowhere.py"), ("run", "-D", "x", __file__), ("run", "-p", "0", __file__)]
)
def test_bad_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_explain_shows_the_plan_and_runs_nothing(script: Callable[..., Path]) -> None:
    path = script(f"print('building'); execute(doubling({ENDLESS})); print('not reached')\n")
    result = invoke("explain", "-p", 3, path)
    assert result.exit_code == 0
    assert result.stdout.startswith("doubling: 1 stage, 128 key groups, streaming mode\n")
    assert "Stage 0, parallelism 3" in result.stdout
    assert result.stderr == "building\n"


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (("--logical",), "3 operators\n"),
        (("--format", "mermaid"), "flowchart TB\n    subgraph"),
        (("--format", "mermaid", "--logical"), "flowchart TB\n    op0"),
        (("--format", "svg"), '<svg xmlns="http://www.w3.org/2000/svg"'),
    ],
)
def test_explain_in_other_forms(arguments: tuple[str, ...], start: str, script: Callable[..., Path]) -> None:
    assert invoke("explain", *arguments, script(f"execute(doubling({ENDLESS}))\n")).stdout.startswith(start)


def test_explain_as_json_prints_json_alone(script: Callable[..., Path]) -> None:
    path = script(f"print('building'); execute(doubling({ENDLESS}), name='a \"b\"')\n")
    physical = json.loads(invoke("explain", "--format", "json", path).stdout)
    assert (physical["name"], len(physical["stages"])) == ('a "b"', 1)
    logical = json.loads(invoke("explain", "--format", "json", "--logical", path).stdout)
    assert [node["type"] for node in logical["nodes"]] == ["numbers", "double", "print"]


def test_explain_of_a_program_without_a_job(script: Callable[..., Path]) -> None:
    result = invoke("explain", script("pass\n"))
    assert result.exit_code == 1
    assert "never came to execute()" in result.stderr


def test_explain_of_a_program_that_fails(script: Callable[..., Path]) -> None:
    result = invoke("explain", script("raise ValueError('no')\n"))
    assert result.exit_code == 1
    assert "ValueError: no" in result.stderr


def test_explain_of_a_program_that_catches_everything(script: Callable[..., Path]) -> None:
    path = script(f"""
        try:
            execute(doubling({ENDLESS}))
        except Exception:
            pass
    """)
    assert invoke("explain", path).exit_code == 0


def test_doctor_hands_on_settings_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fake(settings: Mapping[str, str], master: str | None = None, console: Console | None = None) -> int:
        asked.append((dict(settings), master))
        return 1

    monkeypatch.setattr(install, "run_doctor", fake)
    result = invoke("doctor", "-D", "spark.ui.enabled=false", "-D", "parallelism.default=2", "--master", "local[2]")
    assert result.exit_code == 1
    assert asked == [({"spark.ui.enabled": "false"}, "local[2]")]
