"""The prompt of ``headrace sql``: history, completion, highlighting, statements over several lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli.sql.client import SqlClient, Write
from headrace.cli.sql.commands import COMMANDS, ClientCommand
from headrace.cli.sql.current_rows import CurrentRows
from headrace.client.job_client import JobClient
from headrace.common.errors import HeadraceError, JobCancelledError, shows_all
from headrace.jobmanager.events import JobEvent, RuntimeStarting
from headrace.jobmanager.status import JobSnapshot
from headrace.table import TableEnvironment, TableResult
from headrace.table.functions.table import FUNCTIONS
from headrace.table.options import MOST_ROWS
from headrace.table.parse.keywords import KEYWORDS
from headrace.table.parse.tokens import BAD, END, NAME, QUOTED, STRING, Token, name_of, tokenize

HISTORY: Final = Path("~/.headrace/sql_history")

_STYLE: Final = Style.from_dict(
    {"keyword": "bold ansiblue", "string": "ansigreen", "number": "ansimagenta", "name": "", "bad": "ansired"}
)
_AROUND: Final = 6
"""The lines of a table besides its rows, and the one below it."""


class PromptClient(SqlClient):
    """Shows results on a terminal.

    Args:
        tables: executes the statements.
        write: shows a line.
        console: the terminal.
    """

    def __init__(self, tables: TableEnvironment, write: Write, console: Console | None = None) -> None:
        super().__init__(tables, write)
        self._console = console or Console()

    def notice(self, event: JobEvent, _: JobSnapshot) -> None:
        """Say what a statement waits for: the start of Spark."""
        if isinstance(event, RuntimeStarting):
            self.write(f"[INFO] Starting {event.what}.")

    def _obey(self, command: ClientCommand) -> None:
        if command is ClientCommand.CLEAR:
            self._console.clear()
        super()._obey(command)

    def _show_table(self, result: TableResult) -> None:
        rows, most = CurrentRows(result), self._settings.get(MOST_ROWS)
        with Live(console=self._console, auto_refresh=False) as live:
            rows.follow(lambda: live.update(self._fitted(rows, most), refresh=True))
            live.update("")
        self._write_all(rows.lines(most))

    def _fitted(self, rows: CurrentRows, most: int) -> Text:
        lines = rows.lines(min(most, max(self._console.height - _AROUND, 1)))
        return Text("\n".join(lines), no_wrap=True, overflow="crop")

    def _started(self, job: JobClient) -> None:
        super()._started(job)
        if job in self.jobs:
            job.get_job_execution_result().add_done_callback(lambda result: self._ended(job, result.exception()))

    def _ended(self, job: JobClient, error: BaseException | None) -> None:
        if error is None:
            self.write(f"[INFO] Job {job.get_job_id()} has finished.")
        elif not isinstance(error, JobCancelledError):
            self.write(f"[ERROR] Job {job.get_job_id()} has failed: {error}")


class SqlPrompt:
    """Reads and executes statements until the user quits.

    Args:
        client: executes them.
        input: the source of key presses; the terminal by default.
        output: the destination of the prompt; the terminal by default.
        history: earlier input; that of the user's history file by default.
    """

    def __init__(
        self,
        client: SqlClient,
        input: Input | None = None,
        output: Output | None = None,
        history: History | None = None,
    ) -> None:
        self._client = client
        self._output = output
        self._session: PromptSession[str] = PromptSession(
            "headrace sql> ",
            multiline=True,
            prompt_continuation=lambda width, _line, _wraps: "> ".rjust(width),
            history=_history() if history is None else history,
            completer=SqlCompleter(client.tables),
            complete_while_typing=False,
            lexer=SqlLexer(),
            style=_STYLE,
            key_bindings=_keys(),
            input=input,
            output=output,
        )

    def run(self) -> None:
        """Read and execute statements until Ctrl-D, or QUIT."""
        while True:
            try:
                with patch_stdout(raw=True):  # what background jobs print appears above the prompt
                    text = self._session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            if not self._execute(text):
                break
        self._client.cancel()

    def _execute(self, text: str) -> bool:
        """Execute what was typed; return whether to go on."""
        try:
            return self._client.run(text)
        except KeyboardInterrupt:
            self._client.write("[INFO] The query was stopped.")
        except HeadraceError as error:
            if shows_all():
                raise
            self._client.write(f"[ERROR] {error}")
        return True


def _history() -> History:
    path = HISTORY.expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def is_complete(text: str) -> bool:
    """Return whether the text is a whole statement, ending with a semicolon outside of a string, or a command."""
    tokens = [token for token in tokenize(text) if token.kind != END]
    if not tokens:
        return True
    if tokens[-1].kind == ";":
        return not any(token.kind == "STATEMENT" for token in tokens) or _closes_set(tokens)
    return len(tokens) == 1 and tokens[0].text.upper() in COMMANDS


def _closes_set(tokens: list[Token]) -> bool:
    """Return whether every ``STATEMENT SET BEGIN`` is ended; ``BEGIN STATEMENT SET;`` is a statement by itself."""
    kinds = [token.kind for token in tokens]
    opened = sum(kinds[at : at + 3] == ["STATEMENT", "SET", "BEGIN"] for at in range(len(kinds)))
    return opened <= sum(kinds[at : at + 2] == ["END", ";"] for at in range(len(kinds)))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


class SqlLexer(Lexer):
    """Colours keywords, strings and numbers."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        text = document.text
        pieces = list(_styled(text))

        def line(number: int) -> StyleAndTextTuples:
            start = document.translate_row_col_to_index(number, 0)
            return list(_cut(text, pieces, start, start + len(document.lines[number])))

        return line


def _styled(text: str) -> Iterator[tuple[str, int, int]]:
    """The styled ranges of a text: start, end and style of each."""
    at = 0
    for token in tokenize(text):
        if token.start > at:
            yield "", at, token.start
        if token.end > token.start:
            yield _style_of(token), token.start, token.end
        at = max(at, token.end)


def _style_of(token: Token) -> str:
    if token.kind == BAD:
        return "class:bad"
    if token.kind in KEYWORDS:
        return "class:keyword"
    if token.kind == STRING:
        return "class:string"
    return "class:number" if token.text[:1].isdigit() else "class:name"


def _cut(text: str, pieces: Iterable[tuple[str, int, int]], start: int, end: int) -> Iterator[tuple[str, str]]:
    """The styled fragments between two positions."""
    for style, first, last in pieces:
        if first < end and last > start:
            yield style, text[max(first, start) : min(last, end)]


class SqlCompleter(Completer):
    """Completes keywords, functions, objects of the catalogs, and columns of the tables that a statement names.

    Args:
        tables: knows the catalogs.
    """

    def __init__(self, tables: TableEnvironment) -> None:
        self._tables = tables

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The words that can replace the one before the cursor."""
        word = document.get_word_before_cursor(WORD=False)
        if not word.isidentifier():
            word = ""
        for name, meta in self._known(document.text):
            if name.upper().startswith(word.upper()) and name != word:
                yield Completion(name, start_position=-len(word), display_meta=meta)

    def _known(self, text: str) -> Iterator[tuple[str, str]]:
        found: dict[str, str] = {}
        for name in self._tables.list_tables():
            found.setdefault(name, "table")
        for column, table in self._columns(text):
            found.setdefault(column, f"column of {table}")
        for name in self._tables.list_databases():
            found.setdefault(name, "database")
        for name in self._tables.list_catalogs():
            found.setdefault(name, "catalog")
        yield from found.items()
        yield from ((name, "") for name in sorted(KEYWORDS))
        yield from ((name, "function") for name in FUNCTIONS.names() if name.isidentifier())

    def _columns(self, text: str) -> Iterator[tuple[str, str]]:
        """The columns of the tables in the statement."""
        names = {name_of(token) for token in tokenize(text) if token.kind in (NAME, QUOTED)}
        for name in names:
            found = self._tables.catalogs.table(self._tables.catalogs.qualify((name,)))
            for column in () if found is None else found.columns:
                yield column.name, name
