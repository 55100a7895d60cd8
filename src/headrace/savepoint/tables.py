"""Tables as Parquet files in a savepoint: written with a digest, and read only where it is right."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.checkpoint.directory import folder_name
from headrace.common.errors import SavepointError, StateCorruptedError
from headrace.savepoint.columns import as_stored, readable
from headrace.savepoint.metadata import TableFile, is_given_up
from headrace.state.exported import ExportedTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.savepoint.metadata import SourceFile
    from headrace.storage.folder import Folder


TABLES: Final = "operators"
"""The folder of all tables; in it there is one for each operator, with one for each state."""

_ROWS_OF_GROUP: Final = 1 << 17
"""So many rows at most share a row group: who reads a part of a file reads no less."""

_IN_ORDER: Final = {b"headrace.order": b"runs"}
"""What the Parquet schema of a table says whose rows are in the order of runs."""

_NAME: Final = re.compile(r"part-[0-9]+-[0-9]+\.parquet")
"""The names of tables, by stage and partition."""

_PLAIN: Final = re.compile(r"[a-z0-9_-]{1,60}")
"""What a folder may be called as it is, also where names that differ in case are one."""


def write_table(savepoint: Folder, table: ExportedTable, stage: int, partition: int) -> TableFile:
    """Write what a task has of a state, row group by row group: in memory there is no more of it than one.

    A task may outlive its job. Whoever has given up the savepoint may have removed all of it before the file came.

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
    """What a file holds.

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
    """Whether a name is one that tables have."""
    return _NAME.fullmatch(name) is not None


def digest_of(content: pa.Buffer | bytes) -> str:
    """What tells a file from any other."""
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
        self._sink = _Sink()
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
        for chunk in self._written():
            self._digest.update(chunk)
            self.size += len(chunk)
            yield chunk

    def _written(self) -> Iterator[bytes]:
        try:
            yield from self._groups()
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
            yield from self._sink.taken()
        if writer is not None:
            writer.close()
            yield from self._sink.taken()


class _Sink(io.RawIOBase):
    """Takes what is written to a file, until it is taken."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any, /) -> int:
        self._written.append(bytes(data))
        self._size += len(self._written[-1])
        return len(self._written[-1])

    def taken(self) -> Iterator[bytes]:
        """What has been written since the last time."""
        written, self._written = self._written, []
        yield from written


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
