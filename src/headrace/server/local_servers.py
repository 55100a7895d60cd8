"""The servers of this user's jobs on this machine, so that commands find them without an address."""

import json
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.common.durable import write_file
from headrace.common.logs import get_logger
from headrace.savepoint.requests import JobProcess

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server of a process on this machine.

    Attributes:
        address: its address.
        process: the process.
        token_file: where its token is; empty for none.
        takes_programs: whether it is a dispatcher.
    """

    address: str
    process: JobProcess
    token_file: str = ""
    takes_programs: bool = False


def _folder() -> Path:
    """Return where servers are noted: only their user can write there."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) / "headrace" if given else Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}"


def note(address: str, token_file: str, *, takes_programs: bool = False) -> Path | None:
    """Note a server of this process.

    Returns:
        The file to remove when it ends; None where it cannot be noted, so that commands need its address.
    """
    folder, server = _folder(), LocalServer(address, JobProcess.present(), token_file, takes_programs)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_own(folder):
            raise PermissionError(f"{folder} is another user's, or others can write there")
        file = folder / f"{os.getpid()}.json"
        write_file(file, [json.dumps(asdict(server)).encode()], durable=False)
    except OSError as error:
        logger.info("commands on this machine do not find %s by themselves: %s", address, error)
        return None
    return file


def known_servers() -> list[LocalServer]:
    """The servers of processes that still run."""
    folder = _folder()
    if not folder.is_dir() or not _is_own(folder):
        return []
    found = []
    for file in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):  # it has just gone, or is of another version
            document = json.loads(file.read_text(encoding="utf-8"))
            server = LocalServer(**{**document, "process": JobProcess(**document["process"])})
            if server.process.is_gone:
                file.unlink()
            else:
                found.append(server)
    return found


def _is_own(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
