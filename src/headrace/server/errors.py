"""Errors in the shapes that Flink's clients read: what a request is refused with, and what a job has failed with."""

import base64
from http import HTTPStatus
from typing import Final

from headrace.common.errors import HeadraceError
from headrace.common.masking import without_secrets
from headrace.server.models.operations import FailureCause

_MOST_CHARACTERS: Final = 4_000
"""The length of a message, in which there may be what a client has sent."""


class RestError(HeadraceError):
    """A request that cannot be answered as it was meant.

    Args:
        status: the status of the answer.
        message: what was wrong, and what to do.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}…")
        self.status = status


def bad_request(message: str) -> RestError:
    """The request itself is wrong."""
    return RestError(HTTPStatus.BAD_REQUEST, message)


def not_found(message: str) -> RestError:
    """There is nothing of that name."""
    return RestError(HTTPStatus.NOT_FOUND, message)


def conflict(message: str) -> RestError:
    """The job cannot do that now."""
    return RestError(HTTPStatus.CONFLICT, message)


def check_id(parameter: str, value: str) -> None:
    """See that something has the form of an id of Flink.

    Raises:
        RestError: when it has not.
    """
    if len(value) != 32 or not set(value) <= set("0123456789abcdef"):
        raise bad_request(f"{parameter}: expected 32 hexadecimal digits in lower case, not {value!r}")


# --- as objects of Java -----------------------------------------------------------------------------------------------

_MOST_BYTES: Final = 60_000
"""A text of Java's serialization that is longer than 65,535 bytes needs another form."""

_HEAD: Final = base64.b64decode(
    "rO0ABXNyAClvcmcuYXBhY2hlLmZsaW5rLnV0aWwuU2VyaWFsaXplZFRocm93YWJsZWUWnfUfpxPzAgADTAAZZnVsbFN0cmluZ2lmaWVkU3RhY2tU"
    "cmFjZXQAEkxqYXZhL2xhbmcvU3RyaW5nO0wAFm9yaWdpbmFsRXJyb3JDbGFzc05hbWVxAH4AAVsAE3NlcmlhbGl6ZWRFeGNlcHRpb250AAJbQnhy"
    "ABNqYXZhLmxhbmcuRXhjZXB0aW9u0P0fPho7HMQCAAB4cgATamF2YS5sYW5nLlRocm93YWJsZdXGNSc5d7jLAwAETAAFY2F1c2V0ABVMamF2YS9s"
    "YW5nL1Rocm93YWJsZTtMAA1kZXRhaWxNZXNzYWdlcQB+AAFbAApzdGFja1RyYWNldAAeW0xqYXZhL2xhbmcvU3RhY2tUcmFjZUVsZW1lbnQ7TAAU"
    "c3VwcHJlc3NlZEV4Y2VwdGlvbnN0ABBMamF2YS91dGlsL0xpc3Q7eHBw"
)
"""The classes and their fields: ``SerializedThrowable``, ``Exception``, ``Throwable``; a cause that is null."""

_NO_TRACE: Final = base64.b64decode(
    "dXIAHltMamF2YS5sYW5nLlN0YWNrVHJhY2VFbGVtZW50OwJGKjw8/SI5AgAAeHAAAAAAc3IAH2phdmEudXRpbC5Db2xsZWN0aW9ucyRFbXB0eUxp"
    "c3R6uBe0PKee3gIAAHhweA=="
)
"""Behind the message: no elements of a stack trace, and no suppressed errors."""

_NULL: Final = b"p"
"""In place of the error itself, of which Java has no class."""


def failure_cause(error: BaseException) -> FailureCause:
    """An error as the cause of an operation's failure."""
    kind = type(error).__name__ if isinstance(error, HeadraceError) else type(error).__qualname__
    trace = without_secrets(f"{kind}: {error}")
    return FailureCause(kind, trace, base64.b64encode(_serialized(kind, trace)).decode())


def _serialized(kind: str, trace: str) -> bytes:
    return b"".join((_HEAD, _text(trace), _NO_TRACE, _text(trace), _text(kind), _NULL))


def _text(text: str) -> bytes:
    """A text of Java's serialization, whose UTF-8 has surrogates, and no zero byte."""
    units = text.encode("utf-16-be", "surrogatepass")
    encoded = bytearray()
    for place in range(0, len(units), 2):
        unit = int.from_bytes(units[place : place + 2], "big")
        part = b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
        if len(encoded) + len(part) > _MOST_BYTES:
            break
        encoded += part
    return b"t" + len(encoded).to_bytes(2, "big") + bytes(encoded)
