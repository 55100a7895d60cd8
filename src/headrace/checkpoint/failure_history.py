"""The last failures of a job, a file for each beside its checkpoints, so that they outlast the process.

A file is created exclusively under the number of the failure, with a checksum; one that was cut short or damaged is
left out, and the others are as good.
"""

import re
from dataclasses import asdict, replace
from typing import Final

from headrace.common.errors import FailureOrigin
from headrace.common.job_execution_result import JobFailure
from headrace.common.json_values import from_checked_bytes, to_checked_bytes
from headrace.common.logs import get_logger
from headrace.common.masking import without_secrets
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_NAME: Final = re.compile(r"([0-9]{8})\.json")
_FORMAT: Final = 1
_LONGEST_MESSAGE: Final = 20_000


class FailureHistory:
    """Reads and writes the failures of one job.

    Args:
        storage: the checkpoint directory.
        limit: how many of the latest failures are kept.
    """

    def __init__(self, storage: Folder, limit: int = 16) -> None:
        self._folder = storage.folder("failures")
        self._limit = limit

    def read(self) -> list[JobFailure]:
        """The failures that are kept, the latest last."""
        found = (self._read(number) for number in self._numbers())
        return [failure for failure in found if failure is not None]

    def add(self, failure: JobFailure) -> JobFailure:
        """Keep a failure, and forget the oldest ones.

        Returns:
            The failure with the number that it was given.

        Raises:
            OSError: when it cannot be written.
        """
        self._folder.make()
        numbers = self._numbers()
        number = max(numbers, default=0) + 1
        while not self._folder.create(_name(number), _to_bytes(replace(failure, number=number))):
            number += 1
        self._folder.remove_all([_name(old) for old in [*numbers, number][: -self._limit]])
        self._folder.remove_unfinished(lambda name: self._is_forgotten(name, number))
        return replace(failure, number=number)

    def _is_forgotten(self, name: str, newest: int) -> bool:
        """Return whether a file that is not finished can go; a job manager that was superseded may still write one."""
        found = _NAME.fullmatch(name)
        return found is not None and int(found[1]) <= newest - self._limit

    def _numbers(self) -> list[int]:
        try:
            names = self._folder.names()
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))

    def _read(self, number: int) -> JobFailure | None:
        try:
            return _from_bytes(self._folder.read(_name(number)))
        except FileNotFoundError:  # just forgotten by the job, which has failed again
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read and is left out: %s", self._folder.locate(_name(number)), error)
            return None


def _name(number: int) -> str:
    return f"{number:08}.json"


def _to_bytes(failure: JobFailure) -> bytes:
    left_out = len(failure.message) - _LONGEST_MESSAGE
    if left_out > 0:
        shown = f"{failure.message[:_LONGEST_MESSAGE]} ... ({left_out} characters more)"
        failure = replace(failure, message=shown)
    return to_checked_bytes({"format": _FORMAT, **asdict(failure)})


def _from_bytes(content: bytes) -> JobFailure:
    document = from_checked_bytes(content)
    if document.pop("format") != _FORMAT:
        raise ValueError("it is of another version of headrace")
    origin = document.pop("origin")
    document["message"] = without_secrets(document["message"])  # which earlier versions kept as it was
    return JobFailure(**document, origin=None if origin is None else FailureOrigin(**origin))
