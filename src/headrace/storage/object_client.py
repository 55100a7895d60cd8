"""How an object store is reached: the clients of this process, their options, and what their errors mean."""

from __future__ import annotations

import contextlib
import difflib
import errno
import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.common.config_values import duration
from headrace.common.errors import CheckpointStorageError
from headrace.storage.credentials import check_credentials
from headrace.storage.hdfs_connection import is_of_hdfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Options = tuple[tuple[str, str], ...]

RETRY_TIMEOUT: Final = "retry_timeout"
"""The option that bounds how long a request is tried again."""

_DEFAULT_RETRY_TIMEOUT: Final = "30 s"

_RETRIES: Final = {"max_retries": 1_000_000, "backoff": {"max_backoff": timedelta(seconds=5)}}
"""Time alone says when a request is given up: by itself the client also counts to ten, and is there in 2 s. Between two
tries it waits for a random time, at least 0.1 s."""

_DEFAULTS: Final = {"timeout": "5 min", "read_timeout": "30 s", "allow_http": True}
"""A large file takes its time, a connection on which nothing comes does not. An ``http:`` endpoint is meant."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HTTP: Final = _names(
    """
    allow_http allow_invalid_certificates connect_timeout pool_idle_timeout proxy_ca_certificate proxy_excludes
    proxy_url read_timeout root_certificate timeout user_agent
    """
)
"""The options that are those of the connection, whatever the store."""

_S3: Final = _names(
    """
    access_key_id checksum_algorithm conditional_put container_authorization_token_file
    container_credentials_full_uri container_credentials_relative_uri copy_if_not_exists default_region
    disable_bulk_delete disable_tagging endpoint endpoint_url imdsv1_fallback metadata_endpoint profile region
    request_payer role_arn role_session_name s3_express secret_access_key server_side_encryption session_token
    skip_signature sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id sts_endpoint token
    unsigned_payload virtual_hosted_style_request web_identity_token_file
    """
)
_GOOGLE: Final = _names(
    """
    application_credentials base_url service_account service_account_key skip_signature
    """
)
_AZURE: Final = _names(
    """
    access_key account_key account_name authority_host authority_id client_id client_secret endpoint
    federated_token_file msi_endpoint sas_key skip_signature tenant_id token use_azure_cli use_emulator
    use_fabric_endpoint
    """
)
_NAMES: Final = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GOOGLE,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}
"""What options are called, for hints; the client knows a few more."""

_FAMILIES: Final = {
    "aws_": ("s3", "s3a"),
    "google_": ("gs",),
    "azure_": ("az", "abfs", "abfss"),
}
"""How the names of options begin that are for one kind of store alone."""

_S3_ERROR: Final = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")

_TRUTH: Final = {"true": True, "false": False}

NO_BUCKET: Final = "there is no such bucket, or the store's endpoint is another one"
"""What else is missing when a put, a list or the store itself finds nothing."""

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
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError
        from obstore.store import from_url
    except ImportError as error:
        raise CheckpointStorageError(
            f"{bucket}: object stores need a library that is not installed: pip install 'headrace[cloud]', on "
            "executors too"
        ) from error
    for key, value in options:
        _check_option(bucket, key, value)
    check_credentials(bucket, dict(options))
    values: dict[str, str | bool] = {key: _TRUTH.get(value.lower(), value) for key, value in options}
    patience = str(values.pop(RETRY_TIMEOUT, _DEFAULT_RETRY_TIMEOUT))
    http = _DEFAULTS | {key: values.pop(key) for key in _HTTP & values.keys()}
    try:
        retries = _RETRIES | {"retry_timeout": timedelta(milliseconds=duration(patience))}
        return from_url(bucket, config=values or None, client_options=http, retry_config=retries)
    except UnknownConfigurationKeyError as error:
        raise CheckpointStorageError(
            f"{bucket} cannot be reached with these headrace.storage options: {_unknown(bucket, error, values)}"
        ) from error
    except (BaseError, TypeError, ValueError) as error:
        raise CheckpointStorageError(
            f"{bucket} cannot be reached with these headrace.storage options: {_told(error)}"
        ) from error


def options_for(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options that are not for another kind of store than that of a bucket; those for S3 without ``aws_``."""
    scheme = bucket.partition(":")[0]
    others = tuple(prefix for prefix, schemes in _FAMILIES.items() if scheme not in schemes)
    mine = {key: value for key, value in options.items() if not key.startswith(others) and not is_of_hdfs(key)}
    if scheme not in _FAMILIES["aws_"]:
        return mine
    return {key.removeprefix("aws_"): value for key, value in mine.items()}


def _unknown(bucket: str, error: Exception, values: Mapping[str, object]) -> str:
    """What to tell of an option that the client does not know."""
    key = next((key for key in values if f"'{key}'" in str(error)), "?")
    known = _NAMES.get(bucket.partition(":")[0], frozenset()) | _HTTP | {RETRY_TIMEOUT}
    close = difflib.get_close_matches(key.removeprefix("fs_"), known, n=2, cutoff=0.5)
    hint = f": did you mean {' or '.join(map(_shown, close))}?" if close else ""
    return f"{_shown(key)} is not known to the client of the store{hint}"


def _shown(key: str) -> str:
    return f"headrace.storage.{key.replace('_', '-')}"


def _check_option(bucket: str, key: str, value: str) -> None:
    """Refuse what the client would take, and go elsewhere or break down."""
    problem = None
    if key.endswith(_NAMES_OF_BUCKETS):
        problem = "the URI says which it is: leave it out"
    elif key.endswith(_ENDPOINTS) and not value.startswith(("http://", "https://")):
        problem = f"{value!r} does not begin with http:// or https://"
    elif not value.isprintable():
        problem = "its value has a control character in it (a line break at its end?)"  # it may be a secret
    if problem is not None:
        raise CheckpointStorageError(
            f"{bucket} cannot be reached with these headrace.storage options: {_shown(key)}: {problem}"
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
        CheckpointStorageError: when it would go wrong again: there is no such bucket, the client refuses, or breaks
            down.
        OSError: for whatever else there is.
    """
    from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError as error:
        _refuse_missing_bucket(where, error)
        raise FileNotFoundError(errno.ENOENT, absent, where) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _told(error), where) from error
    except InvalidPathError as error:
        raise CheckpointStorageError(
            f"{where} holds an object that is not the job's, with a key that cannot be listed: remove it "
            f"({_told(error)})"
        ) from error
    except NotImplementedError as error:
        raise CheckpointStorageError(f"{where}: {_told(error)}: see the headrace.storage options") from error
    except BaseError as error:
        _refuse_missing_bucket(where, error)
        raise OSError(errno.EIO, _told(error), where) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise CheckpointStorageError(
            f"{where}: the client of the store has broken down ({_told(error)}): see the credentials, in the "
            "environment as well (a line break at the end of one?), and the headrace.storage options"
        ) from error


def _refuse_missing_bucket(where: str, error: Exception) -> None:
    if "<Code>NoSuchBucket<" in str(error):
        raise CheckpointStorageError(f"{where}: {NO_BUCKET} ({_told(error)})") from error


def _told(error: BaseException) -> str:
    """What a store says of an error, and with which code, in one line."""
    first = str(error).partition("\n")[0]
    said = _S3_ERROR.search(str(error))
    if said is None:
        return first
    return f"{first.partition(': <')[0]}: {': '.join(filter(None, said.groups()))}"
