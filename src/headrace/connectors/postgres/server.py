"""A database of PostgreSQL: how it is reached, what its errors mean, and places in its write-ahead log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.secret_references import with_secrets

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_SESSION: Final = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""The settings of all sessions: values have the same text whatever the server's own settings are."""

_QUESTIONS: Final = re.compile(r" Is the server running [^?]*\?")
"""A question to the user that a client library puts into a message."""

_PAUSE_SECONDS: Final = 0.5
"""The pause between two attempts to connect to a server that is not there."""

_NOT_INSTALLED: Final = (
    "PostgreSQL needs a library that is not installed: pip install 'headrace[postgres]', on executors too"
)
_PASSING: Final = frozenset(("22023", "55006"))
"""States of errors that pass: a snapshot that is gone with its session, and a slot that another session still has."""

_LASTING_AT_LOGIN: Final = {
    "authentication failed": "",
    "no password supplied": "give 'password'",
    "does not exist": "",
    "no pg_hba.conf entry": "",
    "start WAL sender": "execute ALTER ROLE ... REPLICATION for the user",
    "start walsender": "execute ALTER ROLE ... REPLICATION for the user",
}
"""Parts of messages about connections that are refused again and again, and what helps."""


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """The address of a database, and the user.

    Attributes:
        hostname: of the server, or the folder of its socket.
        port: where it listens.
        database: its name.
        username: the user; None for that of the process.
        password: not shown; it may be a reference to a secret, which is looked up for each connection.
        timeout: how long to wait for a connection, in milliseconds.
    """

    hostname: str
    port: int
    database: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout: int = 30_000

    def connect(self, purpose: str, *, replication: bool = False) -> Connection:
        """A connection whose statements commit by themselves.

        Args:
            purpose: part of the name by which the server shows it.
            replication: whether it speaks the replication protocol.

        Raises:
            ConfigurationError: when the server does not let it in, or psycopg is not installed.
            InfrastructureError: when the server cannot be reached.
        """
        try:
            import psycopg
        except ImportError as error:
            raise ConfigurationError(_NOT_INSTALLED) from error
        username, password = (
            None if each is None else with_secrets(each, f"the options of PostgreSQL at {self}")
            for each in (self.username, self.password)
        )
        more: dict[str, Any] = {"replication": "database"} if replication else {}
        with telling(f"PostgreSQL at {self}"):
            return psycopg.connect(
                host=self.hostname,
                port=self.port,
                dbname=self.database,
                user=username,
                password=password,
                client_encoding="utf8",
                connect_timeout=max(2, self.timeout // 1000),
                keepalives_idle=30,
                application_name=f"headrace {purpose}",
                options=" ".join(f"-c {name}={value}" for name, value in _SESSION.items()),
                autocommit=True,
                prepare_threshold=None,
                **more,
            )

    def connect_at_first(self, purpose: str, option: str, address: str) -> Connection:
        """A connection to a server that a job has never reached, which is waited for as long as the timeout says.

        Args:
            purpose: part of the name by which the server shows it.
            option: that of the timeout, for messages.
            address: the options of the address and their verb, likewise.

        Raises:
            ConfigurationError: when it does not answer meanwhile: its address may be wrong.
        """
        until = time.monotonic() + self.timeout / 1000
        while True:
            try:
                return self.connect(purpose)
            except InfrastructureError as error:
                if time.monotonic() >= until:
                    raise ConfigurationError(
                        f"{error}. It has not been reached for {self.timeout / 1000:g} s ({option}), and this job has "
                        f"never read from it: see that {address} right, and that the server runs, and start the job "
                        "again"
                    ) from error
            time.sleep(_PAUSE_SECONDS)

    @property
    def namespace(self) -> str:
        """Its name in lineage."""
        return f"postgres://{self.hostname}:{self.port}"

    def __str__(self) -> str:
        return f"{self.hostname}:{self.port}/{self.database}"


@contextmanager
def telling(what: str, *, needs: str = "") -> Iterator[None]:
    """Turn errors of psycopg into errors that may pass, and those that need a change of the configuration.

    Args:
        what: what is done, for messages.
        needs: what to do if the user lacks the right.

    Raises:
        InfrastructureError: when it may pass.
        ConfigurationError: when it comes again.
    """
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        failure = error_of(error, what)
        if needs and isinstance(error, psycopg.errors.InsufficientPrivilege):
            failure = ConfigurationError(f"{failure}: {needs}")
        raise failure from error


def error_of(error: psycopg.Error, what: str) -> HeadraceError:
    """The error in place of one of psycopg: one that may pass, or one that needs a change of the configuration."""
    import psycopg

    text = _QUESTIONS.sub("", " ".join(str(error).split())) or type(error).__name__
    advice = [_LASTING_AT_LOGIN[part] for part in _LASTING_AT_LOGIN if error.sqlstate is None and part in text]
    is_passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or error.sqlstate in _PASSING
    if is_passing and not advice and not (error.sqlstate or "").startswith(("28", "3D")):
        return InfrastructureError(f"{what}: {text}")
    return ConfigurationError(": ".join((what, text, *filter(None, advice))))


def lsn_of(text: str) -> int:
    """A place in the write-ahead log as a number, of ``16/B374D848``."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """A place in the write-ahead log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def quoted(*names: str) -> str:
    """A name in SQL, with its schema in front."""
    return ".".join('"{}"'.format(name.replace('"', '""')) for name in names)


def literal(text: str) -> str:
    """A text in SQL."""
    escaped = text.replace("'", "''")
    return " E'{}'".format(escaped.replace("\\", "\\\\")) if "\\" in escaped else f"'{escaped}'"
