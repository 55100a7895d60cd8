"""Checkpoint directories on storages that distributions of others bring; a URI's scheme is the name of the plugin.

A distribution adds one as an entry point of the group ``headrace.checkpoint_storages``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from headrace.common.plugins import Plugin, PluginGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.storage.folder import Folder


class CheckpointStorage(Plugin):
    """Opens the directories of one scheme."""

    noun = "checkpoint storage"

    @abstractmethod
    def open(self, location: str, options: Mapping[str, str]) -> Folder:
        """The folder of a location; it need not exist.

        Args:
            location: the whole URI.
            options: what the configuration says behind ``headrace.storage.``, with ``_`` for ``-``.

        Raises:
            CheckpointStorageError: when the location or the options cannot be right.
        """


CHECKPOINT_STORAGES: Final = PluginGroup(
    "headrace.checkpoint_storages",
    CheckpointStorage,  # type: ignore[type-abstract] # what plugins extend, never made itself
    {},
)
"""All that are there; POSIX paths and object stores are not among them, but come first."""
