"""Names of files of records: at which version of the log one was written, and which commit it is for."""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.log.state import LogState

CHUNKS: Final = "arrow"
"""How the names of files of records end."""

_ANY_EPOCH: Final = "any"

_NAME: Final = re.compile(
    rf"([0-9]{{20}})-[0-9a-f]{{32}}(?:-([0-9a-f]{{16}})-([0-9]+|{_ANY_EPOCH})-([0-9]+))?\.{CHUNKS}"
)


@dataclass(frozen=True, slots=True)
class StagedFor:
    """The one commit that records were written for; nobody has them but in their file.

    Attributes:
        producer: the id of who commits them.
        epoch: that of the producer; None where a later one may do so as well.
        sequence: of the commit.
    """

    producer: str
    epoch: int | None
    sequence: int


def new_chunk(version: int, staged_for: StagedFor | None = None) -> str:
    """A name for a file of records.

    Args:
        version: of the log as its writer knows it.
        staged_for: the commit; None where the writer still has the records, and writes them anew if it has to.
    """
    name = f"{version:020}-{uuid.uuid4().hex}"
    if staged_for is not None:
        epoch = _ANY_EPOCH if staged_for.epoch is None else staged_for.epoch
        name += f"-{_tag(staged_for.producer)}-{epoch}-{staged_for.sequence}"
    return f"{name}.{CHUNKS}"


def is_chunk(name: str) -> bool:
    """Whether a file of records has this name."""
    return _NAME.fullmatch(name) is not None


def staged_at(name: str) -> int:
    """The version at which a file of records was written."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def may_be_gone(name: str, state: LogState) -> bool:
    """Whether a file was written so long ago that it is removed unless something refers to it."""
    found = _NAME.fullmatch(name)
    return found is not None and found[2] is None and int(found[1]) < state.oldest_staged


def abandoned(names: list[str], state: LogState) -> list[str]:
    """Of files of records those that nobody can commit any more; something may refer to them all the same.

    Of one that was staged for a commit the log itself has to say so, however old it is: that commit was done, or a
    later one, or the producer is fenced. Clocks say nothing of that.
    """
    known = {_tag(producer): each for producer, each in state.producers.items()}

    def is_over(name: str) -> bool:
        found = _NAME.fullmatch(name)
        if found is None or found[2] is None:
            return may_be_gone(name, state)
        producer = known.get(found[2])
        if producer is None:
            return False
        if found[3] != _ANY_EPOCH and producer.epoch != int(found[3]):
            return producer.epoch > int(found[3])
        return producer.sequence >= int(found[4])

    return [name for name in names if is_over(name)]


def _tag(producer: str) -> str:
    return hashlib.blake2b(producer.encode(), digest_size=8).hexdigest()
