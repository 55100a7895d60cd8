"""The remote stores that whole jobs are tested on, each a server of its own: what their tests have in common."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import pytest

_MARKS = {"s3": (), "azure": (pytest.mark.integration,), "hdfs": (pytest.mark.integration, pytest.mark.slow)}


class Store(Protocol):
    """A server, as the fixtures ``s3``, ``azure`` and ``hdfs`` give it."""

    @property
    def serving_port(self) -> int:
        """Where requests of clients are answered."""

    def new_place(self) -> str:
        """The URI of a folder of its own."""

    def options(self) -> dict[str, str]:
        """What a client has to be told."""

    def through(self, port: int, place: str) -> tuple[str, dict[str, str]]:
        """A place, and what a client has to be told, for clients that reach the server by another port."""

    def put(self, uri: str, content: bytes) -> None:
        """Create or replace a file."""


def on(*names: str, slow: Collection[str] = ()) -> Any:
    """Run a test on stores, all three if none is named.

    Args:
        names: the names of their fixtures.
        slow: on which of them it is slow; HDFS always is.
    """
    stores = [case(name, is_slow=name in slow) for name in names or _MARKS]
    return pytest.mark.parametrize("store", stores, indirect=True)


def case(store: str, *values: object, is_slow: bool = False) -> Any:
    """The parameters of a test on a store, and their marks."""
    return pytest.param(store, *values, marks=[*_MARKS[store], *([pytest.mark.slow] if is_slow else [])])
