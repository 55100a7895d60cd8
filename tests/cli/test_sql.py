"""``headrace sql``: statements of files, and of a prompt without a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.cli.sql.client import SqlClient, tables_with
from headrace.common.errors import ConfigurationError, HeadraceError, JobExecutionError

pytest.importorskip("prompt_toolkit")

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from headrace.cli.sql.command import run_sql
from headrace.cli.sql.prompt import PromptClient, SqlCompleter, SqlLexer, SqlPrompt, is_complete

LOCAL = {"headrace.runtime": "local", "parallelism.default": "1"}
NUMBERS = "CREATE TEMPORARY VIEW numbers AS SELECT * FROM (VALUES (1), (2)) AS v(n);\n"
PRINTED = "CREATE TABLE p (n BIGINT) WITH ('connector'='print');\n"


@contextmanager
def client(**settings: str) -> Iterator[tuple[SqlClient, list[str]]]:
    lines: list[str] = []
    made = SqlClient(tables_with({**LOCAL, **settings}), lines.append)
    yield made, lines
    made.cancel()


def test_a_file_is_executed_and_its_jobs_awaited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "init.sql").write_text(NUMBERS + PRINTED)
    (tmp_path / "job.sql").write_text("INSERT INTO p SELECT n * 10 FROM numbers WHERE n > 1; -- more than one\n")
    assert run_sql(tmp_path / "job.sql", tmp_path / "init.sql", LOCAL, progress=False) == 0
    assert "+I[20]" in capsys.readouterr().out.splitlines()


def test_commands_between_statements() -> None:
    with client() as (session, lines):
        assert session.run("SHOW DATABASES; -- one\nhelp;\nCLEAR;SHOW CATALOGS")
        shown = "\n".join(lines)
        assert shown.index("default_database") < shown.index("HELP; CLEAR; QUIT;") < shown.index("default_catalog")
        lines.clear()
        assert not session.run("SHOW CATALOGS; /* that is all */ Exit ; SHOW DATABASES;")
        assert not any("database" in line for line in lines)
        with pytest.raises(HeadraceError, match="line 2, column 1"):
            session.run("HELP;\nSELEC 1")


def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init, job = tmp_path / "init.sql", tmp_path / "job.sql"
    init.write_text(NUMBERS)
    job.write_text("SHOW TABLES;\nSELECT\n  m FROM numbers;")
    assert run_sql(job, init, LOCAL, progress=False) == 1
    told = capsys.readouterr().err
    assert f"at line 3, column 3 of {job}\n" in told
    assert "    m FROM numbers;\n    ^\n" in told
    job.write_text("SHOW TABLES;\nSELECT 1 / (n - 1) FROM\n  numbers;")
    assert run_sql(job, init, LOCAL, progress=False) == 1
    assert f"operator defined at {job}:2 in SELECT\n" in capsys.readouterr().err


def test_functions_are_found_beside_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_the_file.py").write_text("def plus(a: int) -> int:\n    return a + 1\n")
    (tmp_path / "job.sql").write_text(
        "CREATE FUNCTION plus AS 'beside_the_file.plus' LANGUAGE PYTHON;\nSELECT plus(41) AS answer;"
    )
    before = list(sys.path)
    assert run_sql(tmp_path / "job.sql", None, LOCAL, progress=False) == 0
    assert "|                   42 |" in capsys.readouterr().out
    assert sys.path == before


def test_settings_of_tables_are_checked(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1;")
    with pytest.raises(ConfigurationError, match=r"did you mean table\.local-time-zone"):
        run_sql(tmp_path / "job.sql", None, LOCAL, ["table.local-timezone=UTC"])


COUNTER = (
    "CREATE TABLE counter (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'fields.n.kind' = "
    "'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000');\n"
)
COUNTS = "SELECT COUNT(*) AS c FROM numbers"


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("table", ["+---+", "| c |", "+---+", "| 2 |", "+---+", "1 row in set"]),
        ("changelog", ["+I[1]", "-U[1]", "+U[2]"]),
    ],
)
def test_results_are_shown_in_several_ways(mode: str, shown: list[str]) -> None:
    with client() as (session, lines):
        session.run(f"{NUMBERS} SET 'sql-client.execution.result-mode' = '{mode}'; {COUNTS};")
        assert lines[2:] == shown


def test_a_tableau_grows_with_the_changes() -> None:
    with client() as (session, lines):
        session.run(f"{NUMBERS} {COUNTS};")
        assert [line.split("|")[1].strip() for line in lines if line.startswith("|")] == ["op", "+I", "-U", "+U"]
        assert lines[-1] == "Received a total of 3 rows"


def test_a_mode_that_is_not_there_is_told() -> None:
    with client() as (session, _), pytest.raises(ConfigurationError, match="tableau, table, changelog"):
        session.run(f"{NUMBERS} SET 'sql-client.execution.result-mode' = 'tabel'; {COUNTS};")


def test_a_statement_set_is_written_over_several_statements(capsys: pytest.CaptureFixture[str]) -> None:
    with client() as (session, _):
        session.run(f"{NUMBERS} {PRINTED} BEGIN STATEMENT SET;")
        session.run("INSERT INTO p SELECT n FROM numbers WHERE n = 1; INSERT INTO p SELECT n FROM numbers WHERE n = 2;")
        with pytest.raises(HeadraceError, match="only INSERT is in a statement set"):
            session.run("SHOW TABLES;")
        session.run("END;")
        assert len(session.jobs) == 1
        session.wait()
    assert sorted(capsys.readouterr().out.split()) == ["+I[1]", "+I[2]"]


def test_an_insert_is_awaited_where_that_is_set() -> None:
    with client(**{"table.dml-sync": "true"}) as (session, lines):
        session.run(f"{NUMBERS} {PRINTED} INSERT INTO p SELECT n FROM numbers;")
        assert (session.jobs, lines[-1]) == ([], "[INFO] Complete execution of the statement.")


# --- the prompt ------------------------------------------------------------------------------------------------------


def typed(keys: str, session: SqlClient, history: Any = None) -> None:
    """What happens when somebody types, and then leaves with Ctrl-D."""
    with create_pipe_input() as pipe:
        pipe.send_text(f"{keys}\x04")
        SqlPrompt(session, pipe, DummyOutput(), history or InMemoryHistory()).run()


def test_statements_have_several_lines() -> None:
    with client() as (session, lines):
        typed("SELECT\r1 AS n\r;\r", session)
        assert "| +I |           1 |" in lines


def test_what_is_wrong_is_shown_and_the_prompt_goes_on() -> None:
    with client() as (session, lines):
        typed("SELECT x;\rSHOW DATABASES;\r", session)
        assert lines[0].startswith("[ERROR] ")
        assert "\n  SELECT x;\n         ^" in lines[0]
        assert "| default_database |" in lines


def test_commands_of_the_client() -> None:
    with client() as (session, lines):
        typed("help\rclear\rquit\rSHOW TABLES;\r", session)
        assert lines[0].startswith("A statement ends with a semicolon")
        assert len(lines) == 1


def test_ctrl_c_stops_a_query_and_not_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with client() as (session, lines):
        run = session.run

        def interrupted(text: str) -> None:
            if "SELECT" in text:
                raise KeyboardInterrupt
            run(text)

        monkeypatch.setattr(session, "run", interrupted)
        typed("SELECT 1;\rSHOW CATALOGS;\r", session)
        assert lines[0] == "[INFO] The query was stopped."
        assert "| default_catalog |" in lines


@contextmanager
def terminal_client(height: int = 25, **settings: str) -> Iterator[tuple[PromptClient, list[str], StringIO]]:
    lines: list[str] = []
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=height)
    made = PromptClient(tables_with({**LOCAL, **settings}), lines.append, console)
    yield made, lines, screen
    made.cancel()


@pytest.fixture
def takes_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("takes_ctrl_c")
def test_a_table_is_redrawn_while_its_query_runs() -> None:
    with terminal_client(height=8) as (session, lines, screen):
        session.run(f"{COUNTER} SET 'sql-client.execution.result-mode' = 'table';")

        def drawn_so_far() -> list[tuple[str, str]]:
            return re.findall(r"(\d+) rows, the last 2 of them, (running|stopped)", screen.getvalue())

        def press_ctrl_c_once_redrawn() -> None:
            while len(set(drawn_so_far())) < 2:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press_ctrl_c_once_redrawn, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            session.run("SELECT n FROM counter;")
        drawn = drawn_so_far()
        assert (drawn[0][1], drawn[-1][1]) == ("running", "stopped")
        assert int(drawn[0][0]) < int(drawn[-1][0])
        del lines[:]
        session.run(f"{NUMBERS} {COUNTS};")
        assert lines[1:] == ["+---+", "| c |", "+---+", "| 2 |", "+---+", "1 row"]


def test_the_end_of_a_job_in_the_background_is_told() -> None:
    with terminal_client() as (session, lines, _):
        session.run(f"{COUNTER} CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole');")
        session.run("INSERT INTO hole VALUES (1); INSERT INTO hole SELECT 1 / (n - 3) FROM counter;")
        with pytest.raises(JobExecutionError):
            session.wait()
        told = [r"\[INFO\] Job \w+ has finished\.$", r"\[ERROR\] Job \w+ has failed: .*\n.*division by zero"]
        while not all(any(re.match(each, line) for line in lines) for each in told):
            time.sleep(0.01)  # the lines come from another thread


def test_what_was_typed_is_remembered() -> None:
    history = InMemoryHistory()
    with client() as (session, lines):
        typed("SHOW CATALOGS;\r", session, history)
        typed("\x1b[A\r", session, history)
        assert lines.count("| default_catalog |") == 2


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';'", False),
        ("SELECT 1 -- ;", False),
        ("quit", True),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END;", True),
        ("BEGIN STATEMENT SET;", True),
    ],
)
def test_a_statement_ends_with_a_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) == complete


def completions(session: SqlClient, text: str) -> list[str]:
    found = SqlCompleter(session.tables).get_completions(Document(text), CompleteEvent())
    return [each.text for each in found]


def test_what_there_is_is_proposed() -> None:
    with client() as (session, _):
        session.run(NUMBERS)
        assert completions(session, "SELECT * FROM num") == ["numbers", "NUMBER", "NUMERIC"]
        assert completions(session, "SELECT n FROM numbers WHERE n")[0] in {"numbers", "n"}
        assert "UNIX_TIMESTAMP" in completions(session, "SELECT unix_")
        assert "default_catalog" in completions(session, "USE CATALOG default_c")


def test_keywords_strings_and_numbers_are_coloured() -> None:
    document = Document("SELECT 'a\nb', 12 FROM `t`")
    line = SqlLexer().lex_document(document)
    assert [(style, text) for style, text, *_ in line(0)] == [
        ("class:keyword", "SELECT"),
        ("", " "),
        ("class:string", "'a"),
    ]
    assert ("class:number", "12") in [(style, text) for style, text, *_ in line(1)]
