"""The programs that were uploaded: scripts of Python, archives of ``headrace package``, statements of SQL.

They are bytes to the dispatcher, which neither imports nor unpickles any of them: the process that runs one does.
"""

import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from headrace.server.cluster.records import millis, read_json
from headrace.server.errors import bad_request, not_found
from headrace.storage.folder import Folder

KINDS: Final = (".py", ".sql", ".zip")

_ID: Final = re.compile(r"[0-9a-f]{32}_([A-Za-z0-9][A-Za-z0-9._ -]{0,120})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,120}")
_ABOUT: Final = "program.json"


@dataclass(frozen=True, slots=True)
class Program:
    """A program.

    Attributes:
        id: its id, which ends in its name.
        name: the name of its file.
        uploaded: when, in milliseconds of the system's clock.
    """

    id: str
    name: str
    uploaded: int


class Programs:
    """The programs of a cluster.

    Args:
        storage: the folder of the cluster.
    """

    def __init__(self, storage: Folder) -> None:
        self._folder = storage.folder("programs")
        self._folder.make()

    def add(self, name: str, blocks: Iterable[bytes]) -> Program:
        """Take a program in.

        Args:
            name: the name of its file, of which the last part counts.
            blocks: its content.

        Raises:
            RestError: when there can be no program of that name.
        """
        short = check_name(name)
        program = Program(f"{secrets.token_hex(16)}_{short}", short, millis())
        folder = self._folder.folder(program.id)
        folder.make()
        folder.file_system.write_new(f"{folder.path}/{short}", blocks)
        folder.write(_ABOUT, [json.dumps(asdict(program)).encode()])
        return program

    def all(self) -> list[Program]:
        """All of them, the newest first."""
        found = [known for name in self._folder.names() if _ID.fullmatch(name) and (known := self._read(name))]
        return sorted(found, key=lambda program: -program.uploaded)

    def get(self, program_id: str) -> Program:
        """A program by its id.

        Raises:
            RestError: when there is none.
        """
        found = self._read(program_id) if _ID.fullmatch(program_id) else None
        if found is None:
            raise not_found(f"Program {program_id} not found")
        return found

    def remove(self, program_id: str) -> None:
        """Remove a program; jobs that run it have a copy.

        Raises:
            RestError: when there is none.
        """
        program = self.get(program_id)
        folder = self._folder.folder(program.id)
        folder.remove_all([_ABOUT, program.name])
        folder.file_system.remove_folder(folder.path)

    def copy(self, program: Program, target: Folder) -> None:
        """Copy a program to where a job finds it."""
        target.make()
        source = self._folder.folder(program.id)
        if target.size(program.name) is None:
            target.file_system.write_new(
                f"{target.path}/{program.name}", source.file_system.blocks(f"{source.path}/{program.name}")
            )

    def blocks(self, program: Program) -> Iterable[bytes]:
        """The content of a program."""
        source = self._folder.folder(program.id)
        return source.file_system.blocks(f"{source.path}/{program.name}")

    def _read(self, program_id: str) -> Program | None:
        document = read_json(self._folder.folder(program_id), _ABOUT)
        return None if document is None else Program(**document)


def check_name(name: str) -> str:
    """The name of a program's file, without what browsers put before it.

    Raises:
        RestError: when it could lead elsewhere, or says that it is something else.
    """
    short = name.replace("\\", "/").rpartition("/")[2]
    if not _NAME.fullmatch(short) or ".." in short:
        raise bad_request(
            f"{name!r} cannot be the name of a program: letters, digits, spaces, dots, _ and - can be in it"
        )
    if not short.endswith(KINDS):
        raise bad_request(
            f"{short}: a program is a script (.py), an archive of `headrace package` (.zip), or statements of SQL "
            "(.sql); jars of Java cannot be run"
        )
    return short
