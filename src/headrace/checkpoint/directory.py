"""A checkpoint directory as a place: whether it keeps the promises that exactness rests on, and its owner.

That is the job manager that has started last. Each claims a generation before it writes anything: a file with the job's
id and its own mark, made exclusively and kept for ever. One that finds a younger generation of another one has been
superseded. The names of manifests alone would not do as a fence: old ones are deleted, so one that wakes up after a
long time finds the name of its next manifest free again.
"""

import errno
import json
import re
import time
import uuid
import zlib
from dataclasses import asdict, dataclass
from typing import Final

from headrace.common.errors import CheckpointError, CheckpointStorageError
from headrace.common.logs import get_logger
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_PROBE: Final = re.compile(r"\.probe-(?:([0-9]+)-)?[0-9a-f]{32}")

_NOT_KNOWN: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""The errors of file systems for calls that they do not have."""

_OF_A_JOB: Final = frozenset(
    {"failures", "generations", "manifests", "pins", "requests", "shipped", "sinks", "sources", "state"}
)

_PROBE_LIFE_SECONDS: Final = 3600
"""A file of a start that is this old is not one with which a job is just trying the folder."""


def has_begun(directory: Folder) -> bool:
    """Return whether a job has ever begun there, whatever has become of it; nothing is written to find out.

    Raises:
        OSError: when the directory cannot be listed.
    """
    return any(_is_anything_in(directory.folder(name)) for name in ("generations", "manifests", "failures"))


def remove_checkpoints(directory: Folder) -> bool:
    """Remove what jobs have left in a checkpoint directory, in which none runs any more; what else is there stays.

    Returns:
        False where nothing is removed, since native savepoints refer to files in it.

    Raises:
        OSError: when not all of it could be removed.
    """
    if _is_anything_in(directory.folder("pins")):
        return False
    system = directory.file_system
    for name in sorted(_OF_A_JOB):
        part = directory.folder(name)
        system.remove_all([path for path, _ in system.walk(part.path)])
        part.remove_empty_folders()
    directory.remove_empty_folders()
    return True


def may_begin(directory: Folder) -> bool:
    """Return whether a job may be about to begin there: nothing is there yet, or only what a job makes there.

    Raises:
        OSError: when the directory cannot be listed.
    """
    try:
        return all(name in _OF_A_JOB or _PROBE.fullmatch(name) for name in directory.names())
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def _is_anything_in(folder: Folder) -> bool:
    try:
        return bool(folder.names())
    except (FileNotFoundError, NotADirectoryError):
        return False


def probe(folder: Folder) -> None:
    """Make the folder if it is missing, and try what will be relied on.

    Raises:
        CheckpointStorageError: when the folder cannot be written or does not create files exclusively.
    """
    try:
        folder.make()
        _remove_left_probes(folder)
        name = f".probe-{time.time():.0f}-{uuid.uuid4().hex}"
        try:
            if not folder.create(name, b"1") or folder.create(name, b"2") or folder.read(name) != b"1":
                raise CheckpointStorageError(
                    f"checkpoint directory {folder} does not create files exclusively: two job managers could both "
                    "believe that they own the job; use a file system with hard links, or a store with conditional puts"
                )
            if name not in folder.names() or folder.size(f"{name}-missing") is not None:
                raise CheckpointStorageError(f"checkpoint directory {folder} does not list the files that are there")
        finally:
            folder.remove(name)
    except OSError as error:
        if isinstance(error, CheckpointStorageError):
            raise
        # Only a link has two names; the file was written before, so rights are not what is missing.
        is_link = error.filename2 is not None and error.errno in _NOT_KNOWN
        why = "; the file system has no hard links, which are needed here: use another one" if is_link else ""
        raise CheckpointStorageError(f"checkpoint directory {folder} cannot be used: {error}{why}") from error


def warn_if_open_to_others(directory: Folder) -> None:
    """Warn when other users may write to a checkpoint directory."""
    way_to_close = directory.open_to_others()
    if way_to_close is not None:
        logger.warning(
            "others may write to the checkpoint directory %s, and so decide what the job unpickles: %s",
            directory,
            way_to_close,
        )


def _remove_left_probes(folder: Folder) -> None:
    """Remove what starts have left that were killed while they tried the folder."""
    oldest = time.time() - _PROBE_LIFE_SECONDS

    def is_left(name: str) -> bool:
        found = _PROBE.fullmatch(name)
        return found is not None and int(found[1] or 0) < oldest

    folder.remove_all([name for name in folder.names() if is_left(name)])
    folder.remove_unfinished(is_left)


_NUMBER: Final = re.compile("0|[1-9][0-9]*")
_CLAIM: Final = re.compile(r"([!-~]+) ([0-9a-f]{32})")


class Generations:
    """The generations of one checkpoint directory.

    Args:
        folder: where they are kept.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._mark = uuid.uuid4().hex
        folder.make()

    def claim(self, at_least: int, job_id: str) -> int:
        """A generation that was never claimed, and younger than all others.

        Args:
            at_least: the first that cannot have been claimed, by the newest manifest; files may have been lost.
            job_id: whose it is.
        """
        generation = max([at_least, *(taken + 1 for taken in self._taken())])
        while not self._create(generation, job_id):
            generation += 1
        return generation

    def renew(self, job_id: str) -> int | None:
        """The generation after one's own; None when the youngest is another job manager's.

        Raises:
            CheckpointError: when there is none any more.
        """
        if not self._taken():
            raise CheckpointError(
                f"the generations have been removed from {self.folder} while the job was running: whether another job "
                "manager has taken over cannot be told; see to it that there is none, and start the job again"
            )
        while self._is_own(youngest := max(self._taken())):
            if self._create(youngest + 1, job_id):
                return youngest + 1
        return None

    def is_current(self, generation: int) -> bool:
        """Return whether there is no younger one; they are claimed one after the other, so the next one says so.

        One's own may be younger: claimed, but not known to be, as an error came after its file had come into being.
        """
        younger = generation + 1
        while self.folder.size(str(younger)) is not None:
            if not self._is_own(younger):
                return False
            younger += 1
        return True

    def job_id(self) -> str | None:
        """The job that the directory belongs to, by the youngest generation of ours; None if it is new."""
        owners = (self._read(generation)[0] for generation in sorted(self._taken(), reverse=True))
        return next(filter(None, owners), None)

    def remove_unfinished(self, generation: int) -> None:
        """Remove what was left by job managers that were killed while they claimed a generation before this one."""
        self.folder.remove_unfinished(lambda name: _NUMBER.fullmatch(name) is not None and int(name) < generation)

    def check(self, generation: int, job_id: str, manifest: str) -> None:
        """Refuse a manifest that was put here from the checkpoint directory of another job.

        Raises:
            CheckpointError: naming both files, when the generation was claimed by another job.
        """
        try:
            found, _ = self._read(generation)
        except FileNotFoundError:  # nothing depends on it: the next generation is above those of all manifests
            return
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            where = self.folder.locate(str(generation))
            logger.warning("%s cannot be read: whether %s is another job's cannot be told (%s)", where, manifest, error)
            return
        if found != job_id:
            raise CheckpointError(
                f"manifest {manifest} is of job {job_id} and says that it has generation {generation}, but "
                f"{self.folder.locate(str(generation))} is damaged or of another job: put back what belongs together"
            )

    def _create(self, generation: int, job_id: str) -> bool:
        try:
            return self.folder.create(str(generation), f"{job_id} {self._mark}".encode())
        except OSError:
            # Its owner removes what others left unfinished, and one of these may just have been slow.
            if self.folder.size(str(generation)) is not None and not self._is_own(generation):
                return False
            raise

    def _is_own(self, generation: int) -> bool:
        return self._read(generation)[1] == self._mark

    def _read(self, generation: int) -> tuple[str, str]:
        """The job and the mark of its owner; empty when it is another file, or a folder."""
        try:
            claim = _CLAIM.match(self.folder.read(str(generation)).decode(errors="replace"))
        except IsADirectoryError:
            claim = None
        return (claim[1], claim[2]) if claim else ("", "")

    def _taken(self) -> list[int]:
        return [int(name) for name in self.folder.names() if _NUMBER.fullmatch(name)]


PINS: Final = "pins"
"""The folder of pins in a checkpoint directory."""

NAMES: Final = "savepoint-"
"""The prefix of the names of savepoints and of their pins; headrace owns nothing else in the folder."""


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
        """The pins of savepoints that earlier owners were taking, whose outcome is not known."""
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
        """Forget the pins of native savepoints that have been disposed of; returns the files that they kept."""
        lasting = self.lasting()
        if not lasting:
            return frozenset()
        try:
            disposed = lasting.keys() - self._folder.names()
        except FileNotFoundError:  # all of them at once, which is no disposal of savepoints
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
        if document.pop("checksum", None) != _checksum(name, document):
            raise ValueError("its checksum is that of something else")
        return Pin(document["savepoint"], tuple(document["files"]), document["lasts"])
    except FileNotFoundError:  # the savepoint has just been disposed of
        return None
    except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError) as error:
        raise CheckpointError(
            f"{folder.locate(name)} is damaged, so which files a savepoint needs is not known: put it back, "
            "or remove it if there is no native savepoint of this checkpoint directory"
        ) from error


def _checksum(name: str, document: dict[str, object]) -> str:
    """The checksum of a pin under its name: it is of no other savepoint."""
    return f"{zlib.crc32(f'{name} {json.dumps(document)}'.encode()):08x}"
