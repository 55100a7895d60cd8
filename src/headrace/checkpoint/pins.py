"""Pins: state files of a checkpoint directory that savepoints refer to, and that nobody deletes until they are let go.

A pin is a file, so that whoever takes the directory over knows of it. That of a native savepoint lasts until that is
disposed of. That of a savepoint which is being taken does not: whoever takes over finds out what has become of the
savepoint, and lets go of the files or keeps them for good.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import CheckpointError

if TYPE_CHECKING:
    from headrace.storage.folder import Folder

PINS: Final = "pins"
"""The folder of pins in a checkpoint directory."""

NAMES: Final = "savepoint-"
"""What the names of savepoints begin with, and of their pins; whatever else is in the folder is somebody else's."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Files that stay.

    Attributes:
        savepoint: which savepoint needs them.
        files: their names.
        lasts: whether it is that of a native savepoint which is complete.
    """

    savepoint: str
    files: tuple[str, ...]
    lasts: bool


class Pins:
    """The pins of one checkpoint directory, as its owner knows them.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: dict[str, Pin] = {}
        self._left: frozenset[str] = frozenset()

    def take_over(self) -> None:
        """Learn of the pins that earlier owners have left.

        Raises:
            CheckpointError: when one cannot be read: what it keeps is not known then.
        """
        self._folder.make()
        found = {name: read_pin(self._folder, name) for name in self._folder.names() if name.startswith(NAMES)}
        self._known = {name: pin for name, pin in found.items() if pin is not None}
        self._left = frozenset(name for name, pin in self._known.items() if not pin.lasts)

    def left(self) -> dict[str, Pin]:
        """The pins of savepoints that earlier owners were taking, of which nobody has told what became of them."""
        return {name: pin for name, pin in self._known.items() if name in self._left}

    def lasting(self) -> dict[str, Pin]:
        """The pins of native savepoints that are complete."""
        return {name: pin for name, pin in self._known.items() if pin.lasts}

    def add(self, name: str, pin: Pin) -> None:
        """Keep files from now on; one that has the name is replaced."""
        self._known[name] = pin
        self._left -= {name}
        self._folder.make()
        document = asdict(pin)
        self._folder.write(name, [json.dumps({**document, "checksum": _checksum(name, document)}).encode()])

    def remove(self, name: str) -> frozenset[str]:
        """Let go of files; returns those that no other pin keeps."""
        self._left -= {name}
        pin = self._known.pop(name, None)
        self._folder.remove(name)
        return frozenset() if pin is None else frozenset(pin.files) - self.files

    def forget_disposed(self) -> frozenset[str]:
        """Forget the pins of native savepoints that somebody else has disposed of; returns the files that they kept."""
        lasting = self.lasting()
        if not lasting:
            return frozenset()
        try:
            disposed = lasting.keys() - self._folder.names()
        except FileNotFoundError:  # all of them at once, as nobody disposes of savepoints
            return frozenset()
        return frozenset(file for name in disposed for file in self._known.pop(name).files)

    @property
    def files(self) -> frozenset[str]:
        """All files that are kept."""
        return frozenset(file for pin in self._known.values() for file in pin.files)


def read_pin(folder: Folder, name: str) -> Pin | None:
    """A pin; None when there is none (any more).

    Args:
        folder: the pins of a checkpoint directory.
        name: the pin.

    Raises:
        CheckpointError: when it cannot be read: what it keeps is not known then.
    """
    try:
        document = json.loads(folder.read(name))
        if document.pop("checksum", None) not in {None, _checksum(name, document)}:  # at first there was none
            raise ValueError("its checksum is that of something else")
        return Pin(document["savepoint"], tuple(document["files"]), document["lasts"])
    except FileNotFoundError:  # somebody has just disposed of the savepoint
        return None
    except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError) as error:
        raise CheckpointError(
            f"{folder.locate(name)} is damaged, so which files a savepoint needs is not known: put it back, "
            "or remove it if there is no native savepoint of this checkpoint directory"
        ) from error


def _checksum(name: str, document: dict[str, Any]) -> str:
    """That of a pin under its name: it is of no other savepoint."""
    return f"{zlib.crc32(f'{name} {json.dumps(document)}'.encode()):08x}"
