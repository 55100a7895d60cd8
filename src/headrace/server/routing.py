"""From the path of a request to its endpoint: a tree by the parts of paths, since lists of patterns take long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.common.logs import get_logger

logger = get_logger(__name__)

Answers = Callable[[Request], Awaitable[Response]]

Again = Callable[[], Response | None]
"""Gives the answer without the request; None where its endpoint has to answer."""

REQUEST: Final = "headrace.request"
"""The key under which a scope of ASGI has its request as it arrived, where that is known as a whole."""

_AGAIN: Final = "headrace.again"

_MOST_REQUESTS: Final = 64

REST: Final = "*"
"""The last part of the path of an endpoint that answers whatever follows."""


def answers_again(request: Request, again: Again) -> None:
    """Have requests with the same bytes answered without a call of their endpoint, while ``again`` has an answer."""
    request.scope[_AGAIN] = again


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The handler of a path.

    Attributes:
        method: the method.
        path: the path; ``:name`` stands for a part of any name, ``*`` at its end for any parts.
        answers: gives the answer.
    """

    method: str
    path: str
    answers: Answers


@dataclass(frozen=True, slots=True)
class Found:
    """The endpoints of a path by their methods, and the parts of the path that have a name."""

    methods: Mapping[str, Answers]
    parameters: Mapping[str, str]


@dataclass(slots=True)
class _Node:
    """Paths that begin alike.

    Attributes:
        parts: those that go on with a part.
        named: those that go on with a part of any name, by what that is called.
        methods: the endpoints of the path that ends here.
        rest: the endpoints of all longer paths.
    """

    parts: dict[str, _Node] = field(default_factory=dict)
    named: dict[str, _Node] = field(default_factory=dict)
    methods: dict[str, Answers] = field(default_factory=dict)
    rest: dict[str, Answers] = field(default_factory=dict)

    def find(self, parts: tuple[str, ...], method: str) -> Found | None:
        """Find the handler; of several the one whose path leaves less open, and of these one that knows the method."""
        if not parts:
            return Found(self.methods, {}) if self.methods else None
        first, others = parts[0], parts[1:]
        candidates = []
        if first in self.parts:
            candidates.append(self.parts[first].find(others, method))
        if first:
            for name, node in self.named.items():
                found = node.find(others, method)
                candidates.append(None if found is None else Found(found.methods, {name: first, **found.parameters}))
        candidates.append(Found(self.rest, {}) if self.rest else None)
        known = [each for each in candidates if each is not None]
        return next((each for each in known if method in each.methods), known[0] if known else None)


class RoutingTable:
    """All endpoints of a server.

    Args:
        endpoints: the endpoints; of two with one path and method the first one answers.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for each in endpoints:
            self._add(each)

    def _add(self, endpoint: Endpoint) -> None:
        node = self._root
        for part in _parts(endpoint.path):
            if part == REST:
                node.rest.setdefault(endpoint.method, endpoint.answers)
                return
            node = (
                node.named.setdefault(part[1:], _Node())
                if part.startswith(":")
                else node.parts.setdefault(part, _Node())
            )
        node.methods.setdefault(endpoint.method, endpoint.answers)

    def find(self, method: str, path: str) -> Found | None:
        """The endpoints of a path; None if it has none. There may be others than of this method."""
        return self._root.find(_parts(path), method)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[1:])


class RoutedApplication:
    """An application of ASGI: each request is answered by the endpoint of its path.

    Args:
        endpoints: the endpoints.
        refuse: answers paths and methods that there are none of, and requests whose endpoint has failed.
    """

    def __init__(self, endpoints: Iterable[Endpoint], refuse: Callable[[Request, HTTPStatus, str], Response]) -> None:
        self._table = RoutingTable(endpoints)
        self._refuse = refuse
        self._again: dict[bytes, Again] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of HTTP."""
        request = Request(scope, receive)
        answer = await self._answer(request, scope)
        again, arrived = scope.get(_AGAIN), scope.get(REQUEST)
        if again is not None and arrived is not None:
            self._remember(arrived, again)
        await answer(scope, receive, send)

    def again(self, request: bytes) -> Response | None:
        """The answer to a request that was answered before, where there is one without a call of its endpoint.

        Whether it is let in, too, depends on nothing but its bytes.
        """
        again = self._again.get(request)
        try:
            return None if again is None else again()
        except Exception:  # a job that there is no more, say: the endpoint says what is wrong
            return None

    def _remember(self, request: bytes, again: Again) -> None:
        if len(self._again) >= _MOST_REQUESTS:
            self._again.clear()
        self._again[request] = again

    async def _answer(self, request: Request, scope: Scope) -> Response:
        method, path = scope["method"], scope["path"]
        found = self._table.find(method, path)
        if found is None:
            return self._refuse(request, HTTPStatus.NOT_FOUND, f"Not found: {path}")
        answers = found.methods.get(method)
        if answers is None:
            status = HTTPStatus.METHOD_NOT_ALLOWED
            refused = self._refuse(request, status, f"{status.phrase}: {method}")
            refused.headers["Allow"] = ", ".join(sorted(found.methods))
            return refused
        scope["path_params"] = found.parameters
        try:
            return await answers(request)
        except Exception as error:
            logger.error("%s %s failed", method, path, exc_info=error)
            text = f"{type(error).__name__}: see the log of the job"
            return self._refuse(request, HTTPStatus.INTERNAL_SERVER_ERROR, text)
