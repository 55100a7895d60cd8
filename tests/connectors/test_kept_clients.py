"""Clients that a process keeps: for one user at a time, and not without end."""

from __future__ import annotations

import pytest

from headrace.connectors import source
from headrace.connectors.source import KeptClients


class Client:
    """Says whether it is closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Unwilling(Client):
    """Fails when it is closed."""

    def close(self) -> None:
        super().close()
        raise OSError("gone already")


def test_who_takes_a_client_has_it_alone() -> None:
    kept, client = KeptClients(), Client()
    assert kept.take("a", Client) is None
    kept.keep("a", client)
    assert kept.take("b", Client) is None
    assert kept.take("a", Unwilling) is None
    assert kept.take("a", Client) is client
    assert kept.take("a", Client) is None


def test_the_one_that_was_kept_first_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MOST_KEPT", 2)
    kept, clients = KeptClients(), [Client(), Client(), Client()]
    for key, client in zip("aba", clients, strict=True):
        kept.keep(key, client)
    assert [client.is_closed for client in clients] == [False, True, False]
    kept.keep("c", Client())
    assert [client.is_closed for client in clients] == [True, True, False]


def test_at_the_end_all_are_closed_whatever_one_fails_with() -> None:
    kept, clients = KeptClients(), [Unwilling(), Client()]
    for client in clients:
        kept.keep("a", client)
    kept.close()
    assert all(client.is_closed for client in clients)
    assert kept.take("a", Client) is None
