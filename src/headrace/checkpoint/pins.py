"""Pins: state files of a checkpoint directory that savepoints refer to, and that nobody deletes until they are let go.

A pin is a file, so that whoever takes the directory over knows of it. That of a savepoint which is being taken ends
with its job manager: whoever takes over removes it. That of a native savepoint lasts until that is disposed of.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointError

if TYPE_CHECKING:
    from headrace.storage.folder import Folder

PINS: Final = "pins"
"""The folder of pins in a checkpoint directory."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Files that stay.

    Attributes:
        savepoint: which savepoint needs them.
        files: their names.
        lasts: whether it outlasts the job manager that made it.
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

    def take_over(self) -> None:
        """Learn of the pins that earlier owners have left, and remove those that nobody needs any more.

        Raises:
            CheckpointError: when one cannot be read: what it keeps is not known then.
        """
        self._folder.make()
        found = {name: self._read(name) for name in self._folder.names()}
        over = [name for name, pin in found.items() if not pin.lasts]
        self._folder.remove_all(over)
        self._known = {name: pin for name, pin in found.items() if pin.lasts}

    def add(self, name: str, pin: Pin) -> None:
        """Keep files from now on."""
        self._known[name] = pin
        self._folder.make()
        self._folder.write(name, [json.dumps(asdict(pin)).encode()])

    def remove(self, name: str) -> frozenset[str]:
        """Let go of files; returns those that no other pin keeps."""
        pin = self._known.pop(name, None)
        self._folder.remove(name)
        return frozenset() if pin is None else frozenset(pin.files) - self.files

    @property
    def files(self) -> frozenset[str]:
        """All files that are kept."""
        return frozenset(file for pin in self._known.values() for file in pin.files)

    def _read(self, name: str) -> Pin:
        try:
            document = json.loads(self._folder.read(name))
            return Pin(document["savepoint"], tuple(document["files"]), document["lasts"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self._folder.locate(name)} is damaged, so which files a savepoint needs is not known: put it back, "
                "or remove it if there is no native savepoint of this checkpoint directory"
            ) from error
