"""Bodies of requests: bounded in size and in time."""

import asyncio
from http import HTTPStatus
from typing import Final

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
    """Read what nobody wants, so that the client comes to read the answer."""
    length = 0
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for chunk in request.stream():
                length += len(chunk)
                if length > _MOST_DRAINED:
                    break
    except (TimeoutError, ClientDisconnect):
        logger.debug("a client has sent %d bytes that nobody wants, and went away", length)
    return b""
