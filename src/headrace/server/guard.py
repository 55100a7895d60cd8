"""Access to the server: only with the token if there is one, and for no page of another site."""

import base64
import hmac
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from headrace.server.errors import RestError, bad_request
from headrace.server.settings import RestSettings, is_loopback

CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="headrace", charset="UTF-8"'}
"""Has browsers ask for the token."""

_SAME_SITE: Final = ("same-origin", "none")


class RequestGuard:
    """Looks at the head of a request before anything is done for it.

    A page of any site can have a browser send requests to this machine: with ``Host`` and ``Origin`` it has to say so.

    Args:
        settings: the rules of access.
    """

    def __init__(self, settings: RestSettings) -> None:
        self._token = None if settings.token is None else settings.token.encode()
        self._is_loopback = settings.is_loopback
        self._host = settings.host.lower()

    def check_host(self, headers: Headers) -> None:
        """See that a request is meant for this server.

        A name of another site may be made to lead to this machine; what is served to it alone is served under its own
        names.

        Raises:
            RestError: when it is not.
        """
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            raise bad_request("a request has one Host")
        host = _host_of(f"//{hosts[0] if hosts else ''}")
        if self._is_loopback and not (host == self._host or is_loopback(host)):
            raise RestError(
                HTTPStatus.FORBIDDEN,
                f"this server is localhost, not {host!r}: where clients reach it so, set rest.address to that",
            )

    def check_token(self, headers: Mapping[str, str]) -> None:
        """See that a request has the token, as a bearer's or as the password of any user.

        Raises:
            RestError: when it has not.
        """
        if self._token is not None and not hmac.compare_digest(
            _token_of(headers.get("authorization", "")), self._token
        ):
            raise RestError(HTTPStatus.UNAUTHORIZED, "the request needs the token: Authorization: Bearer <token>")

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse changes by pages of other sites.

        With the images of a page browsers send the password that they know, and over plain HTTP not whose page it is.
        So a change by ``GET`` has to prove that it is none, by headers that pages of others cannot send.

        Raises:
            RestError: when one does.
        """
        host, origin, site = headers.get("host", "").lower(), headers.get("origin"), headers.get("sec-fetch-site")
        is_foreign = (origin is not None and _place_of(origin) != host) or (site or "none") not in _SAME_SITE
        referer = _place_of(headers.get("referer", ""))
        is_known = origin is not None or site is not None or (referer != "" and referer == host)
        is_proven = is_known or _is_bearer(headers)
        if is_foreign or (method == "GET" and not is_proven):
            raise RestError(HTTPStatus.FORBIDDEN, "pages of other sites may not change anything here")


def _is_bearer(headers: Mapping[str, str]) -> bool:
    return headers.get("authorization", "").lower().startswith("bearer ")


def _place_of(address: str) -> str:
    """The host and port of an address; empty where it has none."""
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""


@lru_cache(64)
def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _token_of(authorization: str) -> bytes:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except ValueError:  # no base 64, or no ASCII
            return b""
    return b""
