"""``%%sql``: statements in notebook cells, with tables of results that grow as rows arrive."""

from __future__ import annotations

from contextlib import suppress
from html import escape
from typing import Any, Final

from headrace.cli.sql.client import SqlClient
from headrace.cli.sql.current_rows import CurrentRows
from headrace.common.notebooks import framed
from headrace.table import TableEnvironment, TableResult

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

    Args:
        result: the result of the query.
    """

    def __init__(self, result: TableResult) -> None:
        self._rows = CurrentRows(result)

    def show(self) -> None:
        """Show the table below the cell and redraw it, until the query has ended or the cell is interrupted.

        Raises:
            JobExecutionError: when the job of the query fails.
        """
        from IPython.display import display

        handle = display(self, display_id=True)
        with suppress(KeyboardInterrupt):
            self._rows.follow(lambda: handle.update(self))

    def __repr__(self) -> str:
        return "\n".join(self._rows.lines(_SHOWN))

    def _repr_html_(self) -> str:
        heading, rows = self._rows.last(_SHOWN)
        body = "".join(_line("td", row) for row in rows)
        head = _line("th", self._rows.names)
        return framed(heading, {}, f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")


def _line(tag: str, values: Any) -> str:
    return f"<tr>{''.join(f'<{tag} style={_CELL!r}>{escape(value)}</{tag}>' for value in values)}</tr>"
