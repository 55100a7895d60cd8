"""Bodies of requests: bounded in size and in time. Uploads, which may be large, are never held in memory.

An upload is a file in the body of a request, as browsers and ``curl -F`` send it.
"""

import asyncio
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser
from http import HTTPStatus
from typing import IO, Final

from starlette.requests import ClientDisconnect, Request

from headrace.common.logs import get_logger
from headrace.server.errors import RestError, bad_request

logger = get_logger(__name__)

MOST_BYTES: Final = 1 << 20
"""No body of a request is larger, but for uploads."""

_MOST_DRAINED: Final = 1 << 30

_READ_SECONDS: Final = 10.0
"""The time limit for the arrival of a body."""


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """The body, which clients of Flink send with each request.

    Args:
        request: the request.
        most: the number of bytes that it may have.

    Raises:
        RestError: when it is too large, or takes too long.
    """
    if not _has_body(request):
        return b""
    found = bytearray()
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise RestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {most} bytes at most")
    except TimeoutError:
        raise RestError(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {_READ_SECONDS:g} s") from None
    except ClientDisconnect:
        raise bad_request("the client went away") from None
    return bytes(found)


def _has_body(request: Request) -> bool:
    return any(name in _TELL_OF_BODIES for name, _ in request.scope["headers"])


_TELL_OF_BODIES: Final = (b"content-length", b"transfer-encoding")
"""A request without these headers has no body."""


async def drained(request: Request) -> bytes:
    """Read the rest of a body and drop it, so that the client comes to read the answer."""
    length = 0
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for chunk in request.stream():
                length += len(chunk)
                if length > _MOST_DRAINED:
                    break
    except (TimeoutError, ClientDisconnect):
        logger.debug("a client has sent %d bytes that are not used, and went away", length)
    return b""


_FIRST_SECONDS: Final = 30.0
"""The time that an upload has in any case."""

_LEAST_RATE: Final = 16_384
"""The bytes that have to arrive each second on average, beyond that time."""

_MOST_SECONDS: Final = 7_200.0
"""No upload takes longer, however large it may be."""

MOST_UPLOADS: Final = 8
"""The most uploads at the same time: each may hold a connection for long, and space on the disk."""

_BLOCK_BYTES: Final = 1 << 20
_MOST_HEADER_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a client sends.

    Attributes:
        name: its name, as the client says it.
        file: what has its content.
        start: where that begins.
        stop: where it ends.
    """

    name: str
    file: IO[bytes]
    start: int
    stop: int

    def blocks(self) -> Iterator[bytes]:
        """Its content."""
        self.file.seek(self.start)
        left = self.stop - self.start
        while left and (block := self.file.read(min(left, _BLOCK_BYTES))):
            left -= len(block)
            yield block


class UploadPlaces:
    """Places for uploads, of which there are only so many; used by one thread."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def take(self) -> Iterator[IO[bytes]]:
        """A file for the body of a request; it is gone afterwards.

        Raises:
            RestError: when too many others are on their way.
        """
        if self._taken >= MOST_UPLOADS:
            raise RestError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_UPLOADS} programs are being uploaded already: ask again later"
            )
        self._taken += 1
        try:
            with tempfile.TemporaryFile() as file:
                yield file
        finally:
            self._taken -= 1


async def receive(request: Request, file: IO[bytes], most: int) -> Upload:
    """The file in the body of a request.

    Args:
        request: the request.
        file: where its body is put.
        most: the number of bytes that the body may have.

    Raises:
        RestError: when it is larger, takes too long, or has no file in it.
    """
    length, begun = 0, asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(_FIRST_SECONDS) as limit:
            async for chunk in request.stream():
                length += len(chunk)
                limit.reschedule(begun + min(_MOST_SECONDS, _FIRST_SECONDS + length / _LEAST_RATE))
                if length > most:
                    raise RestError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"a program has {most} bytes at most: rest.server.max-content-length says how many",
                    )
                file.write(chunk)
    except TimeoutError:
        raise RestError(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the file comes too slowly: {length} bytes of it have come in "
            f"{asyncio.get_running_loop().time() - begun:.0f} s; {_LEAST_RATE} bytes a second are the least",
        ) from None
    except ClientDisconnect:
        raise bad_request("the client went away") from None
    return file_in(file, length, request.headers.get("content-type", ""))


def file_in(file: IO[bytes], length: int, content_type: str) -> Upload:
    """The only file in a body of type ``multipart/form-data``.

    Raises:
        RestError: when it is of another type, malformed, or has no file or several.
    """
    about = Message()
    about["Content-Type"] = content_type
    boundary = about.get_param("boundary")
    if about.get_content_type() != "multipart/form-data" or not isinstance(boundary, str) or not boundary or not length:
        raise bad_request("expected a file as multipart/form-data, such as curl -F jarfile=@job.py sends it")
    file.flush()
    with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as data:
        found = [
            Upload(name, file, start, stop) for name, start, stop in _parts(data, boundary.encode(errors="replace"))
        ]
    if len(found) != 1:
        raise bad_request(f"expected one file, and there are {len(found)}")
    return found[0]


def _parts(data: mmap.mmap, boundary: bytes) -> Iterator[tuple[str, int, int]]:
    """The files in a body: their names, and where their content is."""
    delimiter = b"\r\n--" + boundary
    place = 0 if data[: len(delimiter) - 2] == delimiter[2:] else data.find(delimiter) + 2
    if place == 1:
        raise bad_request("the body does not begin with its boundary")
    while data[place + len(delimiter) - 2 : place + len(delimiter)] == b"\r\n":
        head = place + len(delimiter)
        start = data.find(b"\r\n\r\n", head - 2, head + _MOST_HEADER_BYTES) + 4
        stop = data.find(delimiter, start - 2) if start > 3 else -1
        if stop < 0:
            raise bad_request("the body is cut short, or malformed")
        headers = BytesHeaderParser().parsebytes(data[head:start])
        name = headers.get_filename()
        if name is not None:
            yield name, start, stop
        place = stop + 2
