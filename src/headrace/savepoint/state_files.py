"""State files of a checkpoint, copied to where nobody deletes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import StateCorruptedError

if TYPE_CHECKING:
    from headrace.storage.folder import Folder


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
