"""How an object store is reached: the clients of this process, their options, and what their errors mean."""

from __future__ import annotations

import contextlib
import errno
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.common.config_values import duration
from headrace.common.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Options = tuple[tuple[str, str], ...]

RETRY_TIMEOUT: Final = "retry_timeout"
"""The option that bounds how long a request is tried again."""

_DEFAULT_RETRY_TIMEOUT: Final = "30 s"

_DEFAULTS: Final = {"timeout": "5 min", "read_timeout": "30 s", "allow_http": True}
"""A large file takes its time, a connection on which nothing comes does not. An ``http:`` endpoint is meant."""

_HTTP: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "pool_idle_timeout",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""The options that are those of the connection, whatever the store."""

_TRUTH: Final = {"true": True, "false": False}

_PANIC: Final = "PanicException"
"""What the client raises when it breaks down; the class is nowhere to be imported from, and no Exception."""

_NAMES_OF_BUCKETS: Final = ("bucket", "bucket_name", "container_name")
_ENDPOINTS: Final = ("endpoint", "endpoint_url")
"""How options end, whatever they begin with, that say where the objects are, and where the store."""


@lru_cache(maxsize=8)
def client(bucket: str, options: Options) -> Any:
    """This process's client of a bucket; credentials come from the options, else from the environment.

    Raises:
        CheckpointStorageError: when the library is missing, or an option is unknown or malformed.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise CheckpointStorageError(
            f"{bucket}: object stores need a library that is not installed: pip install 'headrace[cloud]', on "
            "executors too"
        ) from error
    for key, value in options:
        _check_option(bucket, key, value)
    values: dict[str, str | bool] = {key: _TRUTH.get(value.lower(), value) for key, value in options}
    patience = str(values.pop(RETRY_TIMEOUT, _DEFAULT_RETRY_TIMEOUT))
    http = _DEFAULTS | {key: values.pop(key) for key in _HTTP & values.keys()}
    try:
        retries = {"retry_timeout": timedelta(milliseconds=duration(patience))}
        return from_url(bucket, config=values or None, client_options=http, retry_config=retries)
    except (BaseError, TypeError, ValueError) as error:
        raise CheckpointStorageError(
            f"{bucket} cannot be reached with these headrace.storage options: {_first_line(error)}"
        ) from error


def _check_option(bucket: str, key: str, value: str) -> None:
    """Refuse what the client would take, and go elsewhere or break down."""
    problem = None
    if key.endswith(_NAMES_OF_BUCKETS):
        problem = "the checkpoint directory says which it is: leave it out"
    elif key.endswith(_ENDPOINTS) and not value.startswith(("http://", "https://")):
        problem = f"{value!r} does not begin with http:// or https://"
    elif not value.isprintable():
        problem = "its value has a control character in it (a line break at its end?)"  # it may be a secret
    if problem is not None:
        name = f"headrace.storage.{key.replace('_', '-')}"
        raise CheckpointStorageError(
            f"{bucket} cannot be reached with these headrace.storage options: {name}: {problem}"
        )


@contextlib.contextmanager
def translated(where: str, absent: str = "no such object") -> Iterator[None]:
    """Has errors of the store be those of the system; all may pass, as far as can be told.

    Args:
        where: what it was about.
        absent: what there is none of when the store finds nothing.

    Raises:
        FileNotFoundError: when there is no such object.
        PermissionError: when the store refuses the credentials.
        CheckpointStorageError: when it would go wrong again: the client refuses, or breaks down.
        OSError: for whatever else there is.
    """
    from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, absent, where) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _first_line(error), where) from error
    except InvalidPathError as error:
        raise CheckpointStorageError(
            f"{where} holds an object that is not the job's, with a key that cannot be listed: remove it "
            f"({_first_line(error)})"
        ) from error
    except NotImplementedError as error:
        raise CheckpointStorageError(f"{where}: {_first_line(error)}: see the headrace.storage options") from error
    except BaseError as error:
        raise OSError(errno.EIO, _first_line(error), where) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise CheckpointStorageError(
            f"{where}: the client of the store has broken down ({_first_line(error)}): see the credentials, in the "
            "environment as well (a line break at the end of one?), and the headrace.storage options"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
