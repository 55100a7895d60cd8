"""``SavepointMetadata``: the file that makes a directory a savepoint. It is written last, and lists all others."""

import json
import re
import zlib
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from headrace.checkpoint.directory import NAMES
from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import CheckpointError, ConfigurationError, SavepointError, SavepointMissingError
from headrace.storage.folder import Folder

METADATA: Final = "_metadata.json"
"""The file; a directory without it is no savepoint."""

DISPOSED: Final = "_disposed.json"
"""The same file while a savepoint is being disposed of: it is none any more, and this lists what is left of it."""

IN_PROGRESS: Final = "_in_progress"
"""The file that exists while tasks may write tables: a task that finds neither it nor the metadata writes in vain."""

FORMAT_VERSION: Final = 1
"""Raised when a headrace of an older version could not read a savepoint."""

_SAVEPOINT: Final = re.compile(rf"{NAMES}[0-9a-f]{{6}}-[0-9a-f]{{12}}")
_MOST_NAMED: Final = 5

SavepointFormat = Literal["canonical", "native"]
"""Files of its own that any backend can read, or references to files of the job's checkpoint directory."""


def savepoint_format(name: str) -> SavepointFormat:
    """The format of a name, in any case.

    Raises:
        ConfigurationError: when there is no such format.
    """
    match name.lower():
        case "canonical":
            return "canonical"
        case "native":
            return "native"
    raise ConfigurationError(f"there is no format {name!r} of savepoints: canonical or native")


@dataclass(frozen=True, slots=True)
class TableFile:
    """One Parquet file: what one task has of one state of one operator.

    Attributes:
        path: where it is in the savepoint, with slashes.
        uid: the operator.
        state: the state, by the name of its store: ``state/total``, ``timers/event``, …
        stage: the stage of the task.
        partition: the task.
        about: what the job has to know of it: its kind, and how keys and values are stored.
        schema: the columns that it stands for, as Arrow writes schemas, in base64.
        rows: how many rows it has.
        size: how many bytes.
        digest: of these bytes, BLAKE2b of 128 bits.
    """

    path: str
    uid: str
    state: str
    stage: int
    partition: int
    about: dict[str, Any]
    schema: str
    rows: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that the enumerator of a source keeps beside its position; ``path``, ``size``, ``digest`` as above.

    Attributes:
        path: where it is in the savepoint.
        uid: the source.
        name: its name in the source's folder.
    """

    path: str
    uid: str
    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """All that is known of a savepoint.

    Attributes:
        checkpoint: the job at the end of the epoch. Where ``format`` is canonical, versions of state have no content:
            that is in ``tables``.
        format: canonical or native.
        tables: the files of a canonical savepoint.
        files: what sources keep.
        directory: of a native savepoint, the checkpoint directory with the files of its state.
        pin: what keeps them there.
    """

    checkpoint: Manifest
    format: SavepointFormat
    tables: tuple[TableFile, ...] = ()
    files: tuple[SourceFile, ...] = ()
    directory: str = ""
    pin: str = ""

    def own_files(self) -> tuple[TableFile | SourceFile, ...]:
        """The files in its directory."""
        return (*self.tables, *self.files)

    def to_bytes(self) -> bytes:
        """Return the metadata as JSON."""
        document = {
            "version": FORMAT_VERSION,
            "format": self.format,
            "directory": self.directory,
            "pin": self.pin,
            "checkpoint": json.loads(self.checkpoint.to_bytes()),
            "tables": [asdict(table) for table in self.tables],
            "files": [asdict(file) for file in self.files],
        }
        return json.dumps({**document, "checksum": _checksum(document)}, indent=1).encode()

    @staticmethod
    def from_bytes(content: bytes, name: str) -> "SavepointMetadata":
        """Read the output of :meth:`to_bytes`.

        Raises:
            SavepointError: naming the file, when it is damaged or of a newer version of headrace.
        """
        try:
            document = json.loads(content)
            checksum = document.pop("checksum")
            if document["version"] != FORMAT_VERSION:
                raise SavepointError(
                    f"{name} has version {document['version']} of the format of savepoints, this headrace reads "
                    f"version {FORMAT_VERSION}: start the job with the headrace that wrote it, or a newer one"
                )
            if checksum != _checksum(document):
                raise SavepointError(f"{name} is damaged: its checksum is not that of its content")
            return SavepointMetadata(
                checkpoint=Manifest.from_bytes(_compact(document["checkpoint"]), f"in {name}"),
                format=document["format"],
                tables=tuple(TableFile(**table) for table in document["tables"]),
                files=tuple(SourceFile(**file) for file in document["files"]),
                directory=document["directory"],
                pin=document["pin"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SavepointError(f"{name} is damaged or cut short: {type(error).__name__}: {error}") from error
        except CheckpointError as error:
            raise error if isinstance(error, SavepointError) else SavepointError(str(error)) from error


def is_given_up(directory: Folder) -> bool:
    """Return whether a savepoint was abandoned: it is neither being taken nor complete.

    Raises:
        OSError: when that is not known.
    """
    return directory.size(IN_PROGRESS) is None and directory.size(METADATA) is None


def read_metadata(directory: Folder, name: str = METADATA) -> SavepointMetadata:
    """Read the metadata of the savepoint in a directory.

    Args:
        directory: the directory.
        name: the file to be read.

    Raises:
        SavepointMissingError: when it is no savepoint.
        SavepointError: when it is a damaged one.
    """
    try:
        content = directory.read(name)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise SavepointMissingError(f"{directory} is no savepoint: {what_is_there(directory, name)}") from error
    path = directory.locate(name)
    metadata = SavepointMetadata.from_bytes(content, path)
    own = str(directory).rstrip("/").rpartition("/")[2]
    if metadata.pin and metadata.pin != own and _SAVEPOINT.fullmatch(own):
        raise SavepointError(f"{path} is that of another savepoint, {metadata.pin}: put back its own")
    return metadata


def is_savepoint(directory: Folder) -> bool:
    """Return whether a directory is a savepoint, and a complete one; a file is none.

    Raises:
        OSError: when that is not known.
    """
    try:
        return directory.size(METADATA) is not None
    except NotADirectoryError:
        return False


def what_is_there(directory: Folder, name: str = METADATA) -> str:
    """A description of what is in the place of a savepoint, with advice."""
    try:
        names = directory.names()
    except FileNotFoundError:
        return "there is nothing at that place"
    except NotADirectoryError:
        return "it is a file; name the directory that the savepoint has"
    inside = [each for each in names if _SAVEPOINT.fullmatch(each)]
    if inside:
        more = f" and {len(inside) - _MOST_NAMED} more" if len(inside) > _MOST_NAMED else ""
        return f"it is a folder of savepoints; name one of them: {', '.join(inside[:_MOST_NAMED])}{more}"
    return f"there is no {name} in it. A savepoint that was not completed has none; take another one"


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _checksum(document: dict[str, Any]) -> str:
    return f"{zlib.crc32(_compact(document)):08x}"
