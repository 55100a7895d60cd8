"""Which call a message of Hadoop's RPC belongs to.

A connection begins with seven bytes; then messages follow, each behind its length of four bytes, both ways. A message
begins with a header in protobuf, behind the header's length.
"""

from __future__ import annotations

from collections.abc import Iterator

PREAMBLE = b"hrpc"
"""What connections begin with."""

PREAMBLE_BYTES = 7

_CALL_OF_REQUEST = 3
_CALL_OF_ANSWER = 1


class Messages:
    """Cuts what comes from one side into messages.

    Args:
        skipped: how many bytes come before the first one.
    """

    def __init__(self, skipped: int) -> None:
        self._skipped = skipped
        self._rest = b""

    def cut(self, data: bytes) -> Iterator[bytes]:
        """The messages that end in a piece."""
        self._rest += data
        if self._skipped:
            self._skipped, self._rest = max(self._skipped - len(self._rest), 0), self._rest[self._skipped :]
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4])
            if len(self._rest) < end:
                return
            message, self._rest = self._rest[4:end], self._rest[end:]
            yield message


def call_of_request(message: bytes) -> int:
    """The number of the call that a client makes; negative for what is not answered."""
    number = _field(message, _CALL_OF_REQUEST)
    return (number >> 1) ^ -(number & 1)


def call_of_answer(message: bytes) -> int:
    """The number of the call that a server answers."""
    return _field(message, _CALL_OF_ANSWER)


def _field(message: bytes, wanted: int) -> int:
    """A number in the header of a message."""
    length, at = _varint(message, 0)
    end = at + length
    while at < end:
        tag, at = _varint(message, at)
        value, at = _varint(message, at)
        if tag >> 3 == wanted:
            return value
        at += value if tag & 7 == 2 else 0  # of bytes the length has been read
    raise AssertionError(f"no field {wanted} in the header of {message!r}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
