"""``headrace state``: the state of a job from a shell, out of a savepoint or a checkpoint directory.

What a command needs is imported when it runs.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from headrace.cli.output import FAILED, OK, new_table, output
from headrace.cli.settings import job_settings
from headrace.common import wording
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, SavepointError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from headrace.state_processor import SavepointReader

state_app = typer.Typer(
    help="Look at the state of a job, in a savepoint or in its checkpoint directory; it may run meanwhile.",
    no_args_is_help=True,
)

Place = Annotated[
    str, typer.Argument(metavar="PATH", help="A savepoint or a checkpoint directory, or its URI on an object store.")
]
Uid = Annotated[str, typer.Argument(metavar="UID", help="The uid of the operator.")]
State = Annotated[
    str, typer.Argument(metavar="STATE", help="The state, as `list` calls it; a name alone is that of a keyed state.")
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="How many lines to show at most.")]
Definitions = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting, of the storage say.", show_default=False)
]


_ROWS_AT_ONCE: Final = 1 << 14
"""The number of rows that are converted to Python objects at a time."""

_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


RowFormat = Literal["table", "json"]
"""The forms in which rows are shown."""

ExportFormat = Literal["parquet", "csv", "json"]
"""The formats of files."""


Plan = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="The compiled plan of SQL that the job executes.")
]


@state_app.command("list")
def list_(place: Place, plan: Plan = None, define: Definitions = None) -> None:
    """Show which states there are, of which types, and how many rows they have; of SQL also what they are for."""
    columns = ("operator", "state", "kind", "types", "rows")
    operators = None if plan is None else _operators_of(plan)
    table = new_table(*columns, *(() if operators is None else ("of",)))
    for state in _reader(place, define).states():
        row = [state.uid, state.store, state.kind, state.types, f"{state.rows:,}"]
        table.add_row(*map(Text, row if operators is None else [*row, operators.get(state.uid, "")]))
    output().print(table)


def _operators_of(plan: Path) -> dict[str, str]:
    """Return the statements, tables and columns that operators serve, by uid, as a compiled plan says."""
    from headrace.table.plans.document import described_operators

    try:
        return described_operators(plan.read_text())
    except OSError as error:
        raise ConfigurationError(f"the plan {plan} cannot be read: {error}") from error


@state_app.command()
def show(
    place: Place,
    uid: Uid,
    state: State,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Show what one key has, as the table shows the key.")
    ] = None,
    limit: Limit = 50,
    form: Annotated[RowFormat, typer.Option("--format", help="A table, or a line of JSON for each row.")] = "table",
    define: Definitions = None,
) -> None:
    """Show what a state holds."""
    from headrace.state.runs.layout import KEY

    rows = _read(_reader(place, define), uid, state)
    if key is not None and KEY not in rows.column_names:
        raise ConfigurationError(f"{state!r} is not kept by key: leave --key out")
    wanted = (row for row in _python_rows(rows) if key is None or _key_text(row[KEY]) == key)
    shown = list(islice(wanted, limit + 1))
    if key is not None and not shown:
        _tell_no_key(rows, key)
    console = output()
    if form == "json":
        for row in shown[:limit]:
            console.out(_as_line(row), highlight=False)
        return
    table = new_table(*rows.column_names)
    for row in shown[:limit]:
        table.add_row(*(Text(_key_text(value) if name == KEY else _text(value)) for name, value in row.items()))
    console.print(table)
    if len(shown) > limit:
        console.print(f"and more: {rows.num_rows:,} rows in all; --limit shows as many as it says")


@state_app.command()
def verify(place: Place, define: Definitions = None) -> None:
    """Read all files, and compare them with the checksums that were written with them."""
    found = _reader(place, define).verify()
    text = f"epoch {found.epoch:,} of job {found.job_name!r}: {wording.count(found.files, 'file')}, "
    output().print(Text(f"{text}{wording.size(found.size)}; all is there as it was written"), soft_wrap=True)


@state_app.command()
def diff(
    before: Place,
    after: Annotated[str, typer.Argument(metavar="PATH", help="Another one.")],
    limit: Limit = 50,
    define: Definitions = None,
) -> None:
    """Show what is different between two of them, key by key; the exit code is 1 when something is."""
    from headrace.state_processor import compare

    console, counted = output(), Counter[str]()
    for difference in compare(_reader(before, define), _reader(after, define)):
        if counted.total() < limit:
            console.print(Text(str(difference)), soft_wrap=True)
        counted[difference.change] += 1
    if counted.total() > limit:
        console.print(f"and {counted.total() - limit:,} more; --limit shows as many as it says")
    numbers = ", ".join(f"{counted[change]:,} {change}" for change in ("added", "removed", "changed"))
    console.print(numbers if counted else "no difference")
    raise typer.Exit(FAILED if counted else OK)  # as of diff and cmp


@state_app.command()
def export(
    place: Place,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder for the files, which must not exist.")],
    uid: Annotated[str | None, typer.Option("--uid", metavar="UID", help="Those of one operator alone.")] = None,
    fmt: Annotated[ExportFormat, typer.Option("--format", help="What files to write.")] = "parquet",
    define: Definitions = None,
) -> None:
    """Write each state to a file."""
    from headrace.common import durable
    from headrace.storage.folder import folder_name

    reader = _reader(place, define)
    states = [state for state in reader.states() if uid in (None, state.uid)]
    if not states:
        raise SavepointError(f"{place} holds no state{'' if uid is None else f' of an operator with uid {uid!r}'}")
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise ConfigurationError(f"{folder} exists: give a folder that does not") from error
    for state in states:
        name = f"{folder_name(state.uid)}-{folder_name(state.store.replace('/', '-', 1))}.{fmt}"
        durable.write_file(folder / name, _FORMS[fmt](reader.read_table(state.uid, state.store)))
        output().print(Text(f"{state.uid} {state.store}: {state.rows:,} rows in {folder / name}"), soft_wrap=True)


def _reader(place: str, define: list[str] | None) -> SavepointReader:
    from headrace.state_processor import SavepointReader

    return SavepointReader.read(place, Configuration.from_dict(job_settings(define)).storage_options())


def _read(reader: SavepointReader, uid: str, state: str) -> pa.Table:
    from headrace.state_processor.reader import TIMERS

    if state == TIMERS.rstrip("/"):
        return reader.read_timers(uid)
    return reader.read_table(uid, state if "/" in state or _is_log(reader, uid, state) else f"state/{state}")


def _is_log(reader: SavepointReader, uid: str, state: str) -> bool:
    return any((table.uid, table.store) == (uid, state) for table in reader.states())


def _tell_no_key(rows: pa.Table, key: str) -> None:
    """Say what keys look like: one of another type is found as little as one that has nothing."""
    from headrace.state.runs.layout import KEY

    texts = list(dict.fromkeys(_key_text(found) for found in rows.column(KEY).slice(0, 3).to_pylist()))
    there = f"some that do are {', '.join(texts)} (type {rows.schema.field(KEY).type})" if texts else "no key does"
    Console(stderr=True).print(Text(f"no key that is shown as {key!r} holds anything; {there}"), soft_wrap=True)


def _python_rows(rows: pa.Table) -> Iterator[dict[str, object]]:
    for batch in rows.to_batches():
        yield from batch.to_pylist()


def _as_parquet(rows: pa.Table) -> Iterable[Buffer]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return [sink.getvalue()]


def _as_csv(rows: pa.Table) -> Iterable[Buffer]:
    import pyarrow as pa
    import pyarrow.csv

    for index, field in enumerate(rows.schema):  # CSV has no form for some; it gets that of JSON
        if pa.types.is_nested(field.type):
            form: Callable[[object], str] = _as_line
        elif pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            form = _json
        else:
            continue
        texts = [None if value is None else form(value) for value in rows.column(index).to_pylist()]
        rows = rows.set_column(index, field.name, pa.array(texts, pa.string()))
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(rows, sink)
    return [sink.getvalue()]


def _as_json(rows: pa.Table) -> Iterable[Buffer]:
    for batch in rows.to_batches(_ROWS_AT_ONCE):
        yield "".join(f"{_as_line(row)}\n" for row in batch.to_pylist()).encode()


def _as_line(value: object) -> str:
    """One value as JSON that other programs read: what is not finite is a text, as in lines that jobs write."""
    return json.dumps(_finite(value), default=_json, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE[str(value)]
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _json(value: object) -> str:
    """The text of a value that JSON cannot represent."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _text(value: object) -> str:
    """One cell of a table."""
    if value is None:
        return ""
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


def _key_text(value: object) -> str:
    """A key as a table shows it, and as ``--key`` takes it: bytes are marked."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else _text(value)


_FORMS: Final[dict[ExportFormat, Callable[[pa.Table], Iterable[Buffer]]]] = {
    "parquet": _as_parquet,
    "csv": _as_csv,
    "json": _as_json,
}
