"""What sources keep in the checkpoint directory beside their positions: copied into a savepoint, and out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.checkpoint.directory import folder_name
from headrace.common.errors import StateCorruptedError
from headrace.savepoint.metadata import SourceFile
from headrace.savepoint.tables import digest_of, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.checkpoint.manifest import SourceSnapshot
    from headrace.storage.folder import Folder

SOURCES: Final = "sources"
"""The folder of these files in a savepoint."""

LOG: Final = ".log"
"""How the names of logs end, which are files of another kind on some storages."""

_WHOLE: Final = 1 << 62


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
    try:  # where a log is a folder of segments, there is no file of its name
        return kept.read_log(name, _WHOLE) if kept.size(name) is None else kept.read(name)
    except FileNotFoundError as error:
        raise StateCorruptedError(f"{kept.locate(name)} is missing; put it back") from error


def put(name: str, content: bytes, kept: Folder) -> None:
    """Put a file into the folder of its source.

    One that is there is replaced in one step: of two starts from the same savepoint the one that was superseded may put
    it again, when the job of the other one needs it already. So a log is a file here, on any storage.
    """
    kept.make()
    if name.endswith(LOG) and kept.size(name) is None:
        kept.remove_log(name)  # a start of an earlier version that was killed may have left it, in segments
    kept.write(name, [content])


def _names(kept: Folder) -> list[str]:
    try:
        return kept.names()
    except FileNotFoundError:  # the source keeps nothing
        return []


def _strings(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, list | tuple):
        for item in document:
            yield from _strings(item)
    elif isinstance(document, dict):
        for item in document.values():
            yield from _strings(item)
