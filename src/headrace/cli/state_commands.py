"""What ``headrace state`` does."""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from headrace.checkpoint.directory import folder_name
from headrace.cli.log_commands import telling
from headrace.cli.output import new_table, output
from headrace.cli.settings import job_settings
from headrace.client import wording
from headrace.common import durable
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, SavepointError
from headrace.state.runs.layout import KEY
from headrace.state_processor import SavepointReader, compare
from headrace.state_processor.reader import TIMERS

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ROWS_AT_ONCE: Final = 1 << 14
"""So many rows are made Python objects at the same time."""

_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

_DIFFERENT: Final = 1
"""The exit code of ``diff`` when something is, as of ``diff`` and ``cmp``."""


def run(command: str, definitions: list[str] | None, *arguments: Any, **options: Any) -> int:
    """Run a command, and say why it failed.

    Returns:
        The exit code.
    """
    codes: list[int | None] = []

    def do() -> None:
        storage = Configuration.from_dict(job_settings(definitions or [])).storage_options()
        codes.append(_COMMANDS[command](storage, *arguments, **options))

    failed = telling(do)
    return failed or codes[0] or 0


def list_states(options: Mapping[str, str], place: str) -> None:
    """One line for each state."""
    table = new_table("operator", "state", "kind", "types", "rows")
    for state in SavepointReader.read(place, options).states():
        table.add_row(*map(Text, (state.uid, state.store, state.kind, state.types, f"{state.rows:,}")))
    output().print(table)


def show(
    options: Mapping[str, str], place: str, uid: str, state: str, *, key: str | None, limit: int, as_json: bool
) -> None:
    """The rows of a state."""
    rows = _read(SavepointReader.read(place, options), uid, state)
    if key is not None and KEY not in rows.column_names:
        raise ConfigurationError(f"{state!r} is not kept by key: leave --key out")
    wanted = (row for row in _python_rows(rows) if key is None or _key_text(row[KEY]) == key)
    shown = list(islice(wanted, limit + 1))
    if key is not None and not shown:
        _tell_no_key(rows, key)
    console = output()
    if as_json:
        for row in shown[:limit]:
            console.out(_as_line(row), highlight=False)
        return
    table = new_table(*rows.column_names)
    for row in shown[:limit]:
        table.add_row(*(Text(_key_text(value) if name == KEY else _text(value)) for name, value in row.items()))
    console.print(table)
    if len(shown) > limit:
        console.print(f"and more: {rows.num_rows:,} rows in all; --limit shows as many as it says")


def _tell_no_key(rows: pa.Table, key: str) -> None:
    """Say what keys look like: one of another type is found as little as one that has nothing."""
    texts = list(dict.fromkeys(_key_text(found) for found in rows.column(KEY).slice(0, 3).to_pylist()))
    there = f"some that do are {', '.join(texts)} (type {rows.schema.field(KEY).type})" if texts else "no key does"
    Console(stderr=True).print(Text(f"no key that is shown as {key!r} holds anything; {there}"), soft_wrap=True)


def verify(options: Mapping[str, str], place: str) -> None:
    """Return whether all that is stored is there, as it was written."""
    found = SavepointReader.read(place, options).verify()
    told = f"epoch {found.epoch:,} of job {found.job_name!r}: {wording.count(found.files, 'file')}, "
    output().print(Text(f"{told}{wording.size(found.size)}; all is there as it was written"), soft_wrap=True)


def diff(options: Mapping[str, str], before: str, after: str, *, limit: int) -> int:
    """What is different."""
    console, counted = output(), Counter[str]()
    for difference in compare(SavepointReader.read(before, options), SavepointReader.read(after, options)):
        if counted.total() < limit:
            console.print(Text(str(difference)), soft_wrap=True)
        counted[difference.change] += 1
    if counted.total() > limit:
        console.print(f"and {counted.total() - limit:,} more; --limit shows as many as it says")
    numbers = ", ".join(f"{counted[change]:,} {change}" for change in ("added", "removed", "changed"))
    console.print(numbers if counted else "no difference")
    return _DIFFERENT if counted else 0


def export(options: Mapping[str, str], place: str, folder: Path, *, uid: str | None, fmt: str) -> None:
    """A file for each state."""
    reader = SavepointReader.read(place, options)
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


def _read(reader: SavepointReader, uid: str, state: str) -> pa.Table:
    if state == TIMERS.rstrip("/"):
        return reader.read_timers(uid)
    return reader.read_table(uid, state if "/" in state or _is_log(reader, uid, state) else f"state/{state}")


def _is_log(reader: SavepointReader, uid: str, state: str) -> bool:
    return any((table.uid, table.store) == (uid, state) for table in reader.states())


def _python_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in rows.to_batches():
        yield from batch.to_pylist()


def _as_parquet(rows: pa.Table) -> Iterable[Buffer]:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return [sink.getvalue()]


def _as_csv(rows: pa.Table) -> Iterable[Buffer]:
    for index, field in enumerate(rows.schema):  # CSV has no form for some; it gets that of JSON
        if pa.types.is_nested(field.type):
            form: Callable[[Any], str] = _as_line
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


def _as_line(value: Any) -> str:
    """One value as JSON that other programs read: what is not finite is a text, as in lines that jobs write."""
    return json.dumps(_finite(value), default=_json, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE[str(value)]
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _json(value: Any) -> str:
    """What JSON has no form for."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _text(value: Any) -> str:
    """One cell of a table."""
    if value is None:
        return ""
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


def _key_text(value: Any) -> str:
    """A key as a table shows it, and as ``--key`` takes it: bytes are told apart."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else _text(value)


_FORMS: Final[dict[str, Callable[[pa.Table], Iterable[Buffer]]]] = {
    "parquet": _as_parquet,
    "csv": _as_csv,
    "json": _as_json,
}

_COMMANDS: Final[dict[str, Callable[..., int | None]]] = {
    "list_states": list_states,
    "show": show,
    "verify": verify,
    "diff": diff,
    "export": export,
}
