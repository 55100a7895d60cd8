"""Disposing of savepoints, and of what is left of those that were never completed.

Nothing else that lies in their directories is touched, whatever it is.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

from headrace.checkpoint.directory import NAMES, PINS, read_pin
from headrace.common.errors import HeadraceError, SavepointError, SavepointMissingError
from headrace.common.logs import get_logger
from headrace.savepoint.metadata import DISPOSED, IN_PROGRESS, METADATA, SavepointMetadata, read_metadata
from headrace.savepoint.tables import SOURCES, TABLES, is_table, remove_file
from headrace.storage.folder import Folder

logger = get_logger(__name__)


def dispose(savepoint: Folder, open_folder: Callable[[str], Folder]) -> str:
    """Remove a savepoint; of a native one, also what keeps its files in the checkpoint directory.

    Those files go when the job that owns the directory, or the next one, removes what it does not need. When it is
    interrupted it can be done again: what is left is known until all of it is gone.

    Args:
        savepoint: its directory. What else is in there is left alone.
        open_folder: gives the checkpoint directory that a native savepoint names, and the place that its pin names.

    Returns:
        Why what keeps files in the checkpoint directory is left there; empty when nothing does any more.

    Raises:
        CheckpointError: when there is none, or it is damaged, so that what belongs to it is not known.
        OSError: when not all of it could be removed.
    """
    metadata = _not_to_be_started_from(savepoint)
    for file in metadata.own_files():
        remove_file(savepoint, file)
    kept = _remove_pin(metadata, open_folder) if metadata.pin else ""
    savepoint.remove(IN_PROGRESS)  # it may be left where power failed when all else was done
    savepoint.remove(DISPOSED)
    savepoint.remove_empty_folders()
    return kept


def _remove_pin(metadata: SavepointMetadata, open_folder: Callable[[str], Folder]) -> str:
    """Remove the pin of a savepoint from which no job can start any more, if it is the one that the pin is for.

    A copy has the same metadata, and metadata can name any pin. So what counts is what is found at the place that the
    pin names, however that is spelled: there the savepoint is being disposed of, or this one is not the pin's.

    Returns:
        Why it stays, or nothing.
    """
    pins = open_folder(metadata.directory).folder(PINS)
    pin = read_pin(pins, metadata.pin) if metadata.pin.startswith(NAMES) and "/" not in metadata.pin else None
    if pin is None:
        return ""
    holder = open_folder(pin.savepoint)
    if not _names_pin(holder, METADATA, metadata.pin) and _names_pin(holder, DISPOSED, metadata.pin):
        pins.remove(metadata.pin)
        return ""
    if _names_pin(holder, METADATA, metadata.pin):
        return f"the state files that it refers to stay: the savepoint {pin.savepoint} needs them"
    return (
        f"the state files that it refers to stay: {pins.locate(metadata.pin)} keeps them for the savepoint "
        f"{pin.savepoint}, which is not there any more. If this one was moved from there, and there is no copy of it, "
        "remove that file too"
    )


def _names_pin(savepoint: Folder, file: str, pin: str) -> bool:
    """Return whether a savepoint, complete or being disposed of, has that pin."""
    try:
        return read_metadata(savepoint, file).pin == pin
    except SavepointMissingError:
        return False


def end_progress(savepoint: Folder) -> None:
    """A savepoint is complete, and says so; what says that it is being taken may be left without harm."""
    try:
        savepoint.remove(IN_PROGRESS)
    except OSError as error:
        logger.info("%s is left: %s", savepoint.locate(IN_PROGRESS), error)


def give_up(savepoint: Folder) -> bool:
    """Remove what was written of a savepoint that will not be completed; whether that could be done just now."""
    try:
        remove_uncompleted(savepoint)
    except (HeadraceError, OSError) as error:
        logger.warning("what was written of the savepoint %s is left there for now: %s", savepoint, error)
        return False
    return True


def remove_uncompleted(savepoint: Folder) -> None:
    """Remove what was written of a savepoint that was never completed.

    Tasks may still be at work for it, of a job that was killed say: they look whether it was given up behind each file.

    Args:
        savepoint: the directory that was made for it.

    Raises:
        SavepointError: when it was completed.
        OSError: when it cannot be read, or not all could be removed.
    """
    if _names(savepoint) is None:
        return
    if savepoint.size(METADATA) is not None:
        raise SavepointError(f"{savepoint} is a savepoint")
    savepoint.remove(IN_PROGRESS)  # first: tasks that still write remove it themselves from here on
    savepoint.remove_unfinished({METADATA, IN_PROGRESS}.__contains__)
    for operator in _folders(savepoint.folder(TABLES)):
        for state in _folders(operator):
            state.remove_unfinished(is_table)
            state.remove_all(list(filter(is_table, state.names())))
    for source in _folders(savepoint.folder(SOURCES)):
        source.remove_unfinished(lambda _: True)
        source.remove_all(source.names())
    savepoint.remove_empty_folders()


def _not_to_be_started_from(savepoint: Folder) -> SavepointMetadata:
    """Mark a savepoint as one from which no job can start, and return what it consists of."""
    try:
        metadata = read_metadata(savepoint)
    except SavepointMissingError as error:
        with suppress(SavepointMissingError):
            return read_metadata(savepoint, DISPOSED)  # an earlier disposal was interrupted
        raise error
    savepoint.write(DISPOSED, [metadata.to_bytes()])
    savepoint.remove(METADATA)
    return metadata


def _folders(folder: Folder) -> Iterator[Folder]:
    """The folders in one; what is none of them is passed over."""
    inner = (folder.folder(name) for name in _names(folder) or ())
    return (each for each in inner if _names(each) is not None)


def _names(folder: Folder) -> list[str] | None:
    """The names in a folder; None where there is no folder."""
    try:
        return folder.names()
    except (FileNotFoundError, NotADirectoryError):
        return None
