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
        name += f"-{tag_of(staged_for.producer)}-{epoch}-{staged_for.sequence}"
    return f"{name}.{CHUNKS}"


@dataclass(frozen=True, slots=True)
class ChunkName:
    """What the name of a file of records says.

    Attributes:
        version: of the log as the writer of the file knew it.
        tag: stands for the producer who commits the records; None where their writer still has them.
        epoch: that of the producer; None where a later one may do so as well.
        sequence: of the commit.
    """

    version: int
    tag: str | None
    epoch: int | None
    sequence: int


def read_name(name: str) -> ChunkName | None:
    """What a name says; None where it is that of something else."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    version, tag, epoch, sequence = found.groups()
    return ChunkName(int(version), tag, None if epoch in (None, _ANY_EPOCH) else int(epoch), int(sequence or 0))


def is_chunk(name: str) -> bool:
    """Whether a file of records has this name."""
    return _NAME.fullmatch(name) is not None


def staged_at(name: str) -> int:
    """The version at which a file of records was written."""
    found = read_name(name)
    return found.version if found else 0


def may_be_gone(name: str, state: LogState) -> bool:
    """Whether a file was written so long ago that it is removed unless something refers to it."""
    found = read_name(name)
    return found is not None and found.tag is None and found.version < state.oldest_staged


def abandoned(names: list[str], state: LogState) -> list[str]:
    """Of files of records those that nobody can commit any more; something may refer to them all the same.

    Of one that was staged for a commit the log itself has to say so, however old it is: that commit was done, or a
    later one, or the producer is fenced. Clocks say nothing of that.
    """
    known = {tag_of(producer): each for producer, each in state.producers.items()}

    def is_over(name: str) -> bool:
        found = read_name(name)
        if found is None or found.tag is None:
            return may_be_gone(name, state)
        producer = known.get(found.tag)
        if producer is None:
            return False
        if found.epoch is not None and producer.epoch != found.epoch:
            return producer.epoch > found.epoch
        return producer.sequence >= found.sequence

    return [name for name in names if is_over(name)]


def tag_of(producer: str) -> str:
    """What stands for a producer in names of files, as its id may have any characters."""
    return hashlib.blake2b(producer.encode(), digest_size=8).hexdigest()
