"""``%%sql``: statements in notebook cells, with tables of results that grow as rows arrive."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from html import escape
from threading import Lock
from typing import Any, Final

from headrace.cli.sql.client import RemainingRows, SqlClient
from headrace.common.notebooks import framed
from headrace.table import TableEnvironment, TableResult
from headrace.table.environment.tableau import table_lines

_REDRAW_SECONDS: Final = 0.5
_SHOWN: Final = 100
"""The maximum number of rows to show; the last ones are shown."""

_CELL: Final = "text-align:left;padding:1px 18px 1px 0;white-space:pre"


class SqlMagic:
    """``%%sql`` and ``%sql``: execute statements in a ``TableEnvironment`` of the notebook.

    ``%%sql NAME`` selects it by its variable; the default is the only one in the notebook, or else a new one.

    Args:
        shell: the shell of IPython.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._clients: list[SqlClient] = []
        self._own: TableEnvironment | None = None

    def register(self) -> None:
        """Add the magics to the shell."""
        self._shell.register_magic_function(self.run, magic_kind="line_cell", magic_name="sql")

    def run(self, line: str, cell: str | None = None) -> None:
        """Execute the statements of a line, or of a cell whose first line names the environment.

        Raises:
            HeadraceError: when one cannot be executed, or its job fails.
        """
        self._client("" if cell is None else line.strip()).run(line if cell is None else cell)

    def _client(self, name: str) -> SqlClient:
        tables = self._named(name) if name else self._only()
        known = next((client for client in self._clients if client.tables is tables), None)
        if known is None:
            known = _NotebookClient(tables, print)
            self._clients.append(known)
        return known

    def _named(self, name: str) -> TableEnvironment:
        from IPython.core.error import UsageError

        found = self._shell.user_ns.get(name)
        if not isinstance(found, TableEnvironment):
            raise UsageError(
                f"{name} is not a TableEnvironment, whose name may follow %%sql: write statements on the lines below"
            )
        return found

    def _only(self) -> TableEnvironment:
        from IPython.core.error import UsageError

        named = {name: each for name, each in self._shell.user_ns.items() if not name.startswith("_")}
        found = {name: each for name, each in named.items() if isinstance(each, TableEnvironment)}
        if len({id(each) for each in found.values()}) > 1:
            raise UsageError(f"which of {', '.join(found)}? Write its name after %%sql")
        if found:
            return next(iter(found.values()))
        if self._own is None:
            self._own = TableEnvironment.create()
        return self._own


class _NotebookClient(SqlClient):
    def _show_rows(self, result: TableResult) -> None:
        GrowingTable(result).show()


class GrowingTable:
    """A table of a query's current rows below a cell.

    A thread reads the rows, so that the cell can be interrupted and the table redrawn while no rows arrive.

    Args:
        result: the result of the query.
    """

    def __init__(self, result: TableResult) -> None:
        self._result = result
        self._names = result.get_resolved_schema().names
        self._rows = RemainingRows()
        self._lock = Lock()
        self._state = ", running"

    def show(self) -> None:
        """Show the table below the cell and redraw it, until the query has ended or the cell is interrupted.

        Raises:
            JobExecutionError: when the job of the query fails.
        """
        from IPython.display import display

        handle = display(self, display_id=True)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._read)
            try:
                while wait([reading], timeout=_REDRAW_SECONDS).not_done:
                    handle.update(self)
                self._state = ", failed" if reading.exception() else ""
            except KeyboardInterrupt:
                self._state = ", stopped"
            finally:
                self._result.close()
        handle.update(self)
        if self._state != ", stopped":
            reading.result()

    def _read(self) -> None:
        for change in self._result.text_rows():
            with self._lock:
                self._rows.apply(change)

    def _last(self) -> tuple[str, list[list[str]]]:
        with self._lock:
            count, rows = len(self._rows), self._rows.last(_SHOWN)
        last = f", the last {_SHOWN} of them" if count > _SHOWN else ""
        return f"{count} row{'' if count == 1 else 's'}{last}{self._state}", rows

    def __repr__(self) -> str:
        heading, rows = self._last()
        return "\n".join([*[*table_lines(self._names, rows)][:-1], heading])

    def _repr_html_(self) -> str:
        heading, rows = self._last()
        body = "".join(_line("td", row) for row in rows)
        return framed(heading, {}, f"<table><thead>{_line('th', self._names)}</thead><tbody>{body}</tbody></table>")


def _line(tag: str, values: Any) -> str:
    return f"<tr>{''.join(f'<{tag} style={_CELL!r}>{escape(value)}</{tag}>' for value in values)}</tr>"
