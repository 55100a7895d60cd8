"""Records that a sink cannot write: finding them in a batch that could not be encoded as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.common.errors import CheckpointError, CommitRefusedError, InfrastructureError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.batch import Batch

T = TypeVar("T")

NOT_OF_THE_RECORDS = (InfrastructureError, CheckpointError, CommitRefusedError, StateError, OSError)
"""All else that a writer raises comes from records that do not fit, or from an encoder, say, of the user."""


class Reject(Protocol):
    """Sends a record to the dead letters of a sink."""

    def __call__(self, record: Any, error: Exception) -> None:
        """Say why a record cannot be written; within ``write()`` only.

        Raises:
            InvalidProgramError: when no batch is being written.
        """


def encode_or_reject(encode: Callable[[Batch], T], batch: Batch, reject: Reject | None) -> list[T]:
    """What can be encoded of a batch, in order, in as many parts as there are stretches without a bad record.

    A batch that is refused is halved until the records are found that are to blame; so a few of them cost little, and
    none costs nothing.

    Args:
        encode: encodes a batch as a whole, or raises; it may be called with parts of it, and must keep nothing.
        batch: the records.
        reject: is told of those that cannot be encoded; None where there is nobody to tell.

    Raises:
        OSError: and whatever else is no fault of a record, or of one that nobody is told of.
    """
    try:
        return [encode(batch)] if len(batch) else []
    except NOT_OF_THE_RECORDS:
        raise
    except Exception as error:
        if reject is None:
            raise
        if len(batch) == 1:
            reject(batch.rows[0], error)
            return []
    middle = len(batch) // 2
    before = encode_or_reject(encode, batch.slice(0, middle), reject)
    return before + encode_or_reject(encode, batch.slice(middle, len(batch)), reject)
