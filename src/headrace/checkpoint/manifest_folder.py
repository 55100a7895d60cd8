"""The manifests of a checkpoint directory: a file for each, named by its number, and a note of the largest number.

A manifest is created exclusively, so there cannot be a second one with its number. The note (``newest``) holds the
largest number there was, so that a manifest that was removed is missed.
"""

import errno
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from zlib import crc32

from headrace.checkpoint.directory import Generations
from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import CheckpointError, CheckpointStorageError
from headrace.common.logs import get_logger
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_MANIFEST: Final = re.compile(r"([0-9]{12})\.json")

_NEWEST: Final = "newest"
"""The name of the note beside the manifests."""

_PASSING: Final = (
    errno.EAGAIN,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EPIPE,
    errno.ESTALE,
    errno.ETIMEDOUT,
)
"""The errors of a storage that cannot be reached just now, or whose listing was an old one (NFS): manifests may be
missing in the listing for the same reason, and then only the error shows it."""


class ManifestFolder:
    """Reads and writes the manifests of one job.

    Args:
        storage: the checkpoint directory.
        generations: tell whether a manifest is of the job that has the directory.
    """

    def __init__(self, storage: Folder, generations: Generations) -> None:
        self._storage = storage
        self._folder = storage.folder("manifests")
        self._generations = generations
        self._folder.make()

    def numbers(self) -> list[int]:
        """The numbers of all manifests, in their order."""
        return manifest_numbers(self._folder)

    def locate(self, number: int) -> str:
        """Return where a manifest is, for messages."""
        return self._folder.locate(name_of(number))

    def latest(self) -> Manifest | None:
        """The newest manifest; None when there was never one.

        Raises:
            CheckpointError: naming the manifest, when it is damaged, has been removed, or is of another job.
        """
        return _read_newest(self._folder, self._complete_numbers, self.read)

    def read(self, number: int) -> Manifest:
        """A manifest by its number.

        Raises:
            FileNotFoundError: when there is none.
            CheckpointError: naming it, when it is damaged, has the name of another one, or is of another job.
        """
        manifest = _read(self._folder, number)
        self._generations.check(manifest.generation, manifest.job_id, self.locate(number))
        return manifest

    def read_older(self, number: int) -> Manifest | None:
        """A manifest that is not the newest; None when it is gone or, with a warning, of no use."""
        try:
            return self.read(number)
        except CheckpointError as error:
            logger.warning("an older manifest is of no use and goes with the next epochs: %s", error)
        except FileNotFoundError:  # the owner before has just forgotten it
            pass
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            logger.warning("an older manifest cannot be read and goes with the next epochs: %s", error)
        return None

    def create(self, manifest: Manifest) -> bool:
        """Write a manifest; False when there is one with its number."""
        return self._folder.create(name_of(manifest.epoch), manifest.to_bytes())

    def replace(self, manifest: Manifest) -> None:
        """Write a manifest of which there is one with its number, and that says the same in another format.

        A crash leaves the one or the other. Whose the job is stays as it is.
        """
        self._folder.write(name_of(manifest.epoch), [manifest.to_bytes()])

    def note(self, number: int) -> None:
        """Leave a note that there was a manifest; lost or outdated it only means less certainty."""
        text = b"%d %08x\n" % (number, crc32(b"%d" % number))
        self._folder.write(_NEWEST, [text], durable=False)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove manifests."""
        self._folder.remove_all([name_of(number) for number in numbers])

    def discard(self) -> None:
        """Remove all manifests, the newest one last: while it is there the job can go on."""
        self._folder.remove(_NEWEST)
        numbers = self.numbers()
        for some in (numbers[:-1], numbers[-1:]):  # a store may remove many in any order
            self.remove(some)

    def remove_unfinished(self, newest: int) -> None:
        """Remove what was left by writers of manifests up to a number that were killed in the midst of it."""
        self._folder.remove_unfinished(lambda name: name == _NEWEST or 0 < _number_of(name) <= newest)

    def _complete_numbers(self) -> list[int]:
        """The numbers of the manifests, the newest of which is really the newest there was."""
        noted = self._noted()
        numbers = self.numbers()
        if noted > max(numbers, default=0):
            raise CheckpointError(
                f"manifest {self.locate(noted)} is missing: output of epochs that are not in {self._storage} has "
                "been published, going on without it would publish them again; put it back, or start with a fresh "
                "checkpoint directory and a fresh output"
            )
        return numbers

    def _noted(self) -> int:
        try:
            number, check = self._folder.read(_NEWEST).split()
        except FileNotFoundError:
            return 0
        except IsADirectoryError as error:
            note = self._folder.locate(_NEWEST)
            raise CheckpointError(f"{note} is a folder, or something else that is no file: remove it") from error
        except (CheckpointStorageError, PermissionError):
            raise
        except OSError as error:  # its place on the disk is broken, say; the manifests themselves tell what they hold
            if error.errno in _PASSING:
                raise
            note = self._folder.locate(_NEWEST)
            logger.warning("%s cannot be read: whether a manifest is missing cannot be told (%s)", note, error)
            return 0
        except ValueError:
            number = check = b""
        if not number or check != b"%08x" % crc32(number):
            note = self._folder.locate(_NEWEST)
            logger.warning("%s is damaged: whether a manifest is missing cannot be told", note)
            return 0
        return int(number)


def newest_manifest(directory: Folder) -> Manifest | None:
    """The newest manifest of a checkpoint directory of which nothing is known; None where there is none.

    The job may run meanwhile. Nothing is written.

    Raises:
        CheckpointError: naming it, when it is damaged, or listed and not there.
    """
    folder = directory.folder("manifests")
    try:
        return _read_newest(folder, partial(manifest_numbers, folder), partial(_read, folder))
    except (FileNotFoundError, NotADirectoryError):  # it has no such folder
        return None


def retained_manifests(directory: Folder) -> list[Manifest]:
    """All manifests of a checkpoint directory, in the order of their numbers; the job may run meanwhile.

    Raises:
        CheckpointError: naming one that is damaged, or listed and not there.
    """
    newest = newest_manifest(directory)
    if newest is None:
        return []
    folder = directory.folder("manifests")
    older = (_unless_forgotten(folder, number) for number in manifest_numbers(folder) if number < newest.epoch)
    return [*filter(None, older), newest]


def _unless_forgotten(folder: Folder, number: int) -> Manifest | None:
    try:
        return _read(folder, number)
    except FileNotFoundError:  # its owner is alive, and has just forgotten it
        return None


def _read_newest(folder: Folder, numbers: Callable[[], list[int]], read: Callable[[int], Manifest]) -> Manifest | None:
    gone = 0
    while listed := numbers():
        newest = listed[-1]
        try:
            return read(newest)
        except FileNotFoundError as error:
            if newest == gone:  # else its owner is alive: it has written the next one and forgotten this
                raise CheckpointError(
                    f"manifest {folder.locate(name_of(newest))} is listed, but cannot be found (a link that leads "
                    "nowhere, say): put back the file that belongs there, or remove the name if it is none of the job's"
                ) from error
            gone = newest
    return None


def _read(folder: Folder, number: int) -> Manifest:
    path = folder.locate(name_of(number))
    try:
        manifest = Manifest.from_bytes(folder.read(name_of(number)), path)
    except IsADirectoryError as error:
        raise CheckpointError(
            f"{path} is a folder, or something else that is no file: the place is that of the manifest of epoch "
            f"{number}"
        ) from error
    if manifest.epoch != number:
        raise CheckpointError(f"manifest {path} is that of epoch {manifest.epoch} under another name: put it back")
    return manifest


def name_of(number: int) -> str:
    """The name of a manifest's file."""
    return f"{number:012d}.json"


def manifest_numbers(folder: Folder) -> list[int]:
    """The numbers of the manifests in a folder, in their order."""
    numbers = (_number_of(name) for name in folder.names())
    return sorted(number for number in numbers if number)


def _number_of(name: str) -> int:
    """The number of the manifest that has a file name; 0 when it is the name of something else."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else 0
