"""Tables as Parquet files in a savepoint: written with a digest, and read only where it is right."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from headrace.checkpoint.manifest import SourceSnapshot
from headrace.common.errors import HeadraceError, SavepointError, StateCorruptedError
from headrace.savepoint.metadata import SourceFile, TableFile, is_given_up
from headrace.state.exported_tables import NAMESPACE, ExportedTable
from headrace.state.keyed.namespaces import namespace_of, ordered_bytes
from headrace.state.keys import KeyCodec
from headrace.state.keys.nullable import codec_from_json
from headrace.state.keys.typed import is_declared
from headrace.state.runs.layout import KEY
from headrace.storage.file_system import TakenOutput
from headrace.storage.folder import Folder, folder_name

ENCODED: Final = "key_encoded"
"""The keys in canonical form, where ``key`` could not give them back."""

WINDOW: Final = ("window_start", "window_end")
"""The two columns of namespaces that are windows; the second alone where windows are identified by their ends."""


def readable(rows: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
    """The rows of an exported table, with columns that other programs understand.

    ``key`` has the declared type of keys, if they and all parts of them are of one; else the text that Python shows for
    them, beside the bytes in ``key_encoded``. Namespaces are ``window_start`` and ``window_end`` where all of them are
    windows, and ``window_end`` alone where that identifies them.
    """
    columns: dict[str, pa.Array] = {}
    codec = codec_of_keys(about)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name == KEY and codec is not None:
            columns |= readable_keys(codec, column)
        elif name == NAMESPACE:
            columns |= _readable_namespaces(column)
        else:
            columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def as_stored(rows: pa.RecordBatch, about: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of the exported table whose :func:`readable` form these are, with the columns of a schema."""
    codec = codec_of_keys(about)
    arrays = [_stored_column(rows, field.name, codec).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored_column(rows: pa.RecordBatch, name: str, codec: KeyCodec | None) -> pa.Array:
    names = rows.schema.names
    if name == KEY and codec is not None:
        if ENCODED in names:
            return rows.column(ENCODED)
        return rows.column(KEY) if codec.is_plain else codec.from_array(rows.column(KEY)).values
    if name == NAMESPACE and NAMESPACE not in names:
        return stored_namespaces(rows)
    return rows.column(name)


def codec_of_keys(about: dict[str, Any]) -> KeyCodec | None:
    """Return how the keys of an exported table are stored, by what is said of it; None where nothing is said."""
    keys = about.get("keys")
    if keys is None:
        return None
    return codec_from_json(keys["key"] if "namespace" in keys else keys)


def readable_keys(codec: KeyCodec, keys: pa.Array) -> dict[str, pa.Array]:
    """Keys in canonical form as ``key``; beside it they are ``key_encoded`` where that could not give them back."""
    if codec.is_plain:
        return {KEY: keys}
    if not is_declared(codec.type):
        return {KEY: pa.array(_texts(codec, keys), pa.string()), ENCODED: keys}
    typed = codec.to_array(keys)
    is_exact = codec.from_array(typed).values.equals(keys)
    return {KEY: typed} if is_exact else {KEY: typed, ENCODED: keys}


def _texts(codec: KeyCodec, keys: pa.Array) -> list[str | None]:
    """The ``repr`` of keys of any type; null for those of classes that only the program knows."""
    try:
        return list(map(repr, codec.decode(keys)))
    except HeadraceError:  # at least one is; which, is found out one by one
        return [_texts(codec, keys.slice(number, 1))[0] for number in range(len(keys))] if len(keys) > 1 else [None]


def stored_namespaces(rows: pa.RecordBatch) -> pa.Array:
    """Namespaces by the starts and ends of windows, or by their ends alone; none where the end is null."""
    bounds = [rows.column(name).to_pylist() for name in WINDOW if name in rows.schema.names]
    windows: Iterable[Any] = zip(*bounds, strict=True) if len(bounds) == len(WINDOW) else bounds[0]
    ends = bounds[-1]
    return pa.array(
        [b"" if end is None else ordered_bytes(window) for window, end in zip(windows, ends, strict=True)], pa.binary()
    )


def _readable_namespaces(column: pa.Array) -> dict[str, pa.Array]:
    namespaces = [namespace_of(data) for data in column.to_pylist()]
    if all(isinstance(namespace, int) for namespace in namespaces):
        return {WINDOW[1]: pa.array(namespaces, pa.int64())}
    if not all(namespace is None or isinstance(namespace, tuple) for namespace in namespaces):
        return {NAMESPACE: column}
    bounds = zip(*((None, None) if namespace is None else namespace for namespace in namespaces), strict=True)
    return {name: pa.array(values, pa.int64()) for name, values in zip(WINDOW, bounds, strict=True)}


TABLES: Final = "operators"
"""The folder of all tables; in it there is one for each operator, with one for each state."""

_ROWS_OF_GROUP: Final = 1 << 17
"""The most rows of a row group: a reader of a part of a file reads no less."""

_IN_ORDER: Final = {b"headrace.order": b"runs"}
"""The entry in the Parquet schema of a table whose rows are in the order of runs."""

_NAME: Final = re.compile(r"part-[0-9]+-[0-9]+\.parquet")
"""The names of tables, by stage and partition."""

_PLAIN: Final = re.compile(r"[a-z0-9_-]{1,60}")
"""The names that folders may have unchanged, also on file systems that ignore case."""


def write_table(savepoint: Folder, table: ExportedTable, stage: int, partition: int) -> TableFile:
    """Write what a task has of a state, row group by row group: in memory there is no more of it than one.

    A task may outlive its job. The process that gave up the savepoint may have removed all of it before the file came.

    Raises:
        SavepointError: when Parquet has no form for a column, or the savepoint was given up meanwhile; nothing is left
            of the file then.
        OSError: when it cannot be written.
    """
    # A name of the user's may have more slashes, and stays another one than that with dashes in their place.
    folders = [TABLES, _called(table.uid), _called(table.store.replace("/", "-", 1))]
    name = f"part-{stage}-{partition}.parquet"
    file = _ParquetFile(table)
    chunks = file.chunks()
    first = next(chunks, b"")  # where Parquet has no form for a column, nothing is to be left
    folder = _made(savepoint, folders)
    folder.write(name, chain([first], chunks))
    if is_given_up(savepoint):
        folder.remove(name)
        savepoint.remove_empty_folders()
        raise SavepointError(f"the savepoint {savepoint} was given up while a task wrote to it")
    return TableFile(
        path="/".join([*folders, name]),
        uid=table.uid,
        state=table.store,
        stage=stage,
        partition=partition,
        about=table.about,
        schema=base64.b64encode(table.schema.serialize().to_pybytes()).decode(),
        rows=file.rows,
        size=file.size,
        digest=file.digest,
    )


def read_table(savepoint: Folder, file: TableFile) -> ExportedTable:
    """Read the table in a file.

    Raises:
        SavepointError: naming the file, when it is missing, damaged or another one.
    """
    content = read_file(savepoint, file)
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(file.schema)))
    parquet = _opened(content)
    is_in_order = _IN_ORDER.items() <= (parquet.schema_arrow.metadata or {}).items()
    return ExportedTable(file.uid, file.state, file.about, schema, _decoded(parquet, file, schema), is_in_order)


def read_file(savepoint: Folder, file: TableFile | SourceFile) -> pa.Buffer:
    """The content of a file.

    Raises:
        SavepointError: naming the file, when it is missing, damaged or another one.
    """
    folder, name = _place(savepoint, file)
    path = folder.locate(name)
    try:
        mapped = folder.map(name)
        mapped.fetch(0, mapped.buffer.size)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise SavepointError(f"the savepoint is not complete: {path} is missing; put it back") from error
    if mapped.buffer.size != file.size:
        raise SavepointError(f"{path} has {mapped.buffer.size} bytes, but the savepoint knows {file.size}; put it back")
    if digest_of(mapped.buffer) != file.digest:
        raise SavepointError(f"{path} is damaged, or another file was put in its place; put it back")
    return mapped.buffer


def remove_file(savepoint: Folder, file: TableFile | SourceFile) -> None:
    """Remove a file, if it is there.

    Raises:
        OSError: when it cannot be removed.
    """
    folder, name = _place(savepoint, file)
    folder.remove(name)


def is_table(name: str) -> bool:
    """Return whether a name is one that tables have."""
    return _NAME.fullmatch(name) is not None


def digest_of(content: pa.Buffer | bytes) -> str:
    """The digest of the content of a file."""
    text: str = _digest(memoryview(content)).hexdigest()
    return text


def _digest(content: memoryview | bytes = b"") -> Any:
    return hashlib.blake2b(content, digest_size=16)


class _ParquetFile:
    """A table as a Parquet file, with a row group for each batch.

    Attributes:
        rows: how many rows were written so far.
        size: how many bytes.
        digest: of these bytes; after the last chunk, that of the file.
    """

    def __init__(self, table: ExportedTable) -> None:
        self._table = table
        self._sink = TakenOutput()
        self._digest = _digest()
        self.rows = self.size = 0

    @property
    def digest(self) -> str:
        text: str = self._digest.hexdigest()
        return text

    def chunks(self) -> Iterator[bytes]:
        """The bytes, as they come to be.

        Raises:
            SavepointError: when Parquet has no form for a column.
        """
        try:
            for chunk in self._groups():
                self._digest.update(chunk)
                self.size += len(chunk)
                yield chunk
        except pa.ArrowException as error:
            raise SavepointError(
                f"operator {self._table.uid!r}: the state {self._table.store!r} cannot be written as Parquet: {error}; "
                "take a native savepoint"
            ) from error

    def _groups(self) -> Iterator[bytes]:
        import pyarrow.parquet as pq  # takes a while, and most jobs take no savepoints

        writer = None
        for stored in self._table.batches:
            batch = readable(stored, self._table.about)
            if writer is None:
                schema = batch.schema.with_metadata(_IN_ORDER if self._table.is_in_order else None)
                writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_statistics=True)
            writer.write_batch(batch, row_group_size=_ROWS_OF_GROUP)
            self.rows += batch.num_rows
            yield self._sink.take()
        if writer is not None:
            writer.close()
            yield self._sink.take()


def _opened(content: pa.Buffer) -> Any:
    import pyarrow.parquet as pq  # as above

    return pq.ParquetFile(pa.BufferReader(content))


def _decoded(parquet: Any, file: TableFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for group in range(parquet.num_row_groups):  # a batch of several is larger than what was written as one
        for batch in parquet.iter_batches(_ROWS_OF_GROUP, row_groups=[group]):
            yield as_stored(batch, file.about, schema)


def _place(savepoint: Folder, file: TableFile | SourceFile) -> tuple[Folder, str]:
    """The folder of a file, and its name there."""
    *folders, name = file.path.split("/")
    for each in folders:
        savepoint = savepoint.folder(each)
    return savepoint, name


def _called(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else folder_name(name)


def _made(savepoint: Folder, folders: list[str]) -> Folder:
    for name in folders:
        savepoint = savepoint.folder(name)
    savepoint.make()
    return savepoint


def copy_state_file(source: Folder, target: Folder, name: str) -> None:
    """Copy a file, whose bytes are in memory only as far as they are under way.

    Raises:
        StateCorruptedError: when there is no such file.
        OSError: when it cannot be read or written.
    """
    try:
        file = source.map(name)
        file.fetch(0, file.buffer.size)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise StateCorruptedError(f"{source.locate(name)} is missing; put it back") from error
    target.write(name, [file.buffer])


SOURCES: Final = "sources"
"""The folder of these files in a savepoint."""


def copy_out(uid: str, source: SourceSnapshot, kept: Folder, savepoint: Folder) -> Iterator[SourceFile]:
    """Copy the files that the position of a source names.

    Args:
        uid: the source.
        source: its position.
        kept: the folder of its files.
        savepoint: the directory of the savepoint.

    Raises:
        OSError: when a file cannot be read or written.
    """
    for name, content in named_files(source, kept):
        yield write_source_file(savepoint, uid, name, content)


def write_source_file(savepoint: Folder, uid: str, name: str, content: bytes) -> SourceFile:
    """Write a file of a source into a savepoint.

    Raises:
        OSError: when it cannot be written.
    """
    folder = savepoint.folder(SOURCES).folder(folder_name(uid))
    folder.make()
    folder.write(name, [content])
    return SourceFile(f"{SOURCES}/{folder_name(uid)}/{name}", uid, name, len(content), digest_of(content))


def copy_in(file: SourceFile, savepoint: Folder, kept: Folder) -> None:
    """Put a file into the folder of its source in a fresh checkpoint directory.

    Raises:
        SavepointError: naming the file, when it is missing, damaged or another one.
    """
    put(file.name, read_file(savepoint, file).to_pybytes(), kept)


def named_files(source: SourceSnapshot, kept: Folder) -> Iterator[tuple[str, bytes]]:
    """The files that the position of a source names, with what is in them.

    Raises:
        StateCorruptedError: when one has gone meanwhile.
        OSError: when one cannot be read.
    """
    named = set(_strings([source.enumerator, [split.position for split in source.splits]]))
    for name in _names(kept) if named else ():
        if name in named:
            yield name, _content(name, kept)


def _content(name: str, kept: Folder) -> bytes:
    try:
        return kept.read(name)
    except FileNotFoundError as error:
        raise StateCorruptedError(f"{kept.locate(name)} is missing; put it back") from error


def put(name: str, content: bytes, kept: Folder) -> None:
    """Put a file into the folder of its source.

    One that is there is replaced in one step: of two starts from the same savepoint the one that was superseded may put
    it again, when the job of the other one needs it already. So a log is a file here, on any storage.
    """
    kept.make()
    kept.write(name, [content])


def _names(kept: Folder) -> list[str]:
    try:
        return kept.names()
    except FileNotFoundError:  # the source keeps nothing
        return []


def _strings(document: object) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, list | tuple):
        for item in document:
            yield from _strings(item)
    elif isinstance(document, dict):
        for item in document.values():
            yield from _strings(item)
