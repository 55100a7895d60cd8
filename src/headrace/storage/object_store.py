"""Object stores: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

A folder is a prefix of keys. What POSIX does with ``link`` is a conditional put here; a put is whole and durable when
it returns, and a listing shows every put that was answered. What POSIX does with ``rename`` is a copy that replaces
nothing: one step of the store, which fails when what is copied is not there any more.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import io
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headrace.common.config_options import duration
from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.file_system import Entry, EntryKind
from headrace.storage.remote import PIECE, FetchedStream, RemoteFileSystem, gathered, is_panic
from headrace.storage.settings import check_credentials, is_of_hdfs, shown_option

if TYPE_CHECKING:
    from typing_extensions import Buffer


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
"""The names of options, for hints; the client has a few more."""

_FAMILIES: Final = {
    "aws_": ("s3", "s3a"),
    "google_": ("gs",),
    "azure_": ("az", "abfs", "abfss"),
}
"""The beginnings of the names of options that are for one kind of store alone."""

_S3_ERROR: Final = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")

_TRUTH: Final = {"true": True, "false": False}

NO_BUCKET: Final = "there is no such bucket, or the store's endpoint is another one"
"""The error where the bucket is missing, and so a put, a list or the store itself finds nothing."""

_NAMES_OF_BUCKETS: Final = ("bucket", "bucket_name", "container_name")
_ENDPOINTS: Final = ("endpoint", "endpoint_url")
"""The ends of options, whatever they begin with, that locate the objects, and the store."""


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
            f"{bucket} cannot be reached with these headrace.storage options: {_text_of(error)}"
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
    """Explain an option that the client does not know."""
    key = next((key for key in values if f"'{key}'" in str(error)), "?")
    known = _NAMES.get(bucket.partition(":")[0], frozenset()) | _HTTP | {RETRY_TIMEOUT}
    close = difflib.get_close_matches(key.removeprefix("fs_"), known, n=2, cutoff=0.5)
    hint = f": did you mean {' or '.join(map(shown_option, close))}?" if close else ""
    return f"{shown_option(key)} is not known to the client of the store{hint}"


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
            f"{bucket} cannot be reached with these headrace.storage options: {shown_option(key)}: {problem}"
        )


@contextlib.contextmanager
def translated(where: str, absent: str = "no such object") -> Iterator[None]:
    """Has errors of the store be those of the system; all may pass, as far as is known.

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
        raise PermissionError(errno.EACCES, _text_of(error), where) from error
    except InvalidPathError as error:
        raise CheckpointStorageError(
            f"{where} holds an object that is not the job's, with a key that cannot be listed: remove it "
            f"({_text_of(error)})"
        ) from error
    except NotImplementedError as error:
        raise CheckpointStorageError(f"{where}: {_text_of(error)}: see the headrace.storage options") from error
    except BaseError as error:
        _refuse_missing_bucket(where, error)
        raise OSError(errno.EIO, _text_of(error), where) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise CheckpointStorageError(
            f"{where}: the client of the store has broken down ({_text_of(error)}): see the credentials, in the "
            "environment as well (a line break at the end of one?), and the headrace.storage options"
        ) from error


def _refuse_missing_bucket(where: str, error: Exception) -> None:
    if "<Code>NoSuchBucket<" in str(error):
        raise CheckpointStorageError(f"{where}: {NO_BUCKET} ({_text_of(error)})") from error


def _text_of(error: BaseException) -> str:
    """Shorten a store's error to one line, with its code."""
    first = str(error).partition("\n")[0]
    said = _S3_ERROR.search(str(error))
    if said is None:
        return first
    return f"{first.partition(': <')[0]}: {': '.join(filter(None, said.groups()))}"


_TRIES: Final = 2
"""The most attempts to create a file whose put was sent, but not answered: the store's client cannot distinguish one
that was done from another's, so it does not try again itself."""

_IN_DOUBT: Final = (errno.EIO, errno.EAGAIN)

_MARK: Final = "writer"
"""The attribute of an object that says which call has created it."""

_SINGLE_PUT_BYTES: Final = 16 << 20
"""The size from which on a file is sent in several parts, without a copy of the whole."""

_BLOCK_BYTES: Final = 4 << 20
_NANOS: Final = 1_000_000_000

_COPY_OPTION: Final = "copy_if_not_exists"
_WAYS_OF_COPYING: Final = ("header: if-none-match: *", "multipart")
"""The ways in which S3 replaces nothing: by a header of the copy, which not all stores of its protocol heed; or when
the parts that were copied are put together, which is not one step any more, but hardly less."""


@dataclass(frozen=True, slots=True)
class ObjectStore(RemoteFileSystem):
    """A bucket or container; its permissions are its own affair, and cannot be seen from here.

    Attributes:
        root: the URL of the bucket.
        options: how to reach it; not shown, since there are secrets among them.
    """

    root: str
    options: Options = field(default=(), repr=False)
    is_flat: ClassVar[bool] = True

    # --- looking -----------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> Entry | None:
        import obstore

        if not path:
            return None
        try:
            with translated(self.locate(path)):
                return _entry(obstore.head(self._client(), _key(path)))
        except FileNotFoundError:
            return None

    def list_folder(self, folder: str) -> list[Entry]:
        files, folders = self._below(folder)
        # Tools put an object in the place of a folder, too: so as to have an empty one.
        found = [_entry(file) for file in files if file["path"] != _key(folder)]
        return found + [Entry(key.rstrip("/").rpartition("/")[2], EntryKind.FOLDER) for key in folders]

    def _below(self, folder: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
        """The objects of a folder, also what stands for itself, and the prefixes of the folders in it."""
        import obstore

        with translated(self.locate(folder)):
            found = obstore.list_with_delimiter(self._client(), _key(folder) or None)
        return found["objects"], found["common_prefixes"]

    def walk(self, folder: str, enter: Callable[[str], bool] | None = None) -> Iterator[tuple[str, Entry]]:
        import obstore

        key = _key(folder)
        start = len(key) + 1 if key else 0
        with translated(self.locate(folder)):
            for entries in obstore.list(self._client(), key or None):
                for entry in entries:
                    folders = entry["path"][start:].split("/")[:-1]
                    if enter is None or all(map(enter, folders)):
                        yield f"/{entry['path']}", _entry(entry)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        import obstore

        with self._reading(path):
            return bytes(obstore.get(self._client(), _key(path)).bytes())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        import obstore

        if not length:
            return b""
        try:
            with self._reading(path):
                return bytes(obstore.get_range(self._client(), _key(path), start=start, length=length))
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError:  # that a range begins behind the end is an error like any other
            found = self.stat(path)
            if found is None or start < (found.size or 0):
                raise
            return b""

    def open(self, path: str) -> io.RawIOBase:
        found = self.stat(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", self.locate(path))
        return FetchedStream(self.locate(path), found.size or 0, partial(self.read_range, path))

    def blocks(self, path: str) -> Iterator[bytes]:
        import obstore

        with translated(self.locate(path)):
            for block in obstore.get(self._client(), _key(path)).stream(_BLOCK_BYTES):
                yield bytes(block)

    def _beginning(self, path: str) -> tuple[int, bytes]:
        import obstore

        try:
            with self._reading(path):
                found = obstore.get(self._client(), _key(path), options={"range": (0, PIECE)})
                return int(found.meta["size"]), bytes(found.bytes())
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError:  # an empty file has no first piece
            empty = self.stat(path)
            if empty is not None and empty.size == 0:
                return 0, b""
            raise

    def _stream(self, path: str, start: int, stop: int) -> Iterator[Buffer]:
        import obstore

        at = start
        with self._reading(path):
            for chunk in obstore.get(self._client(), _key(path), options={"range": (start, stop)}).stream():
                at += len(chunk)
                if at > stop:
                    break
                yield chunk
        if at != stop:
            where = self.locate(path)
            raise OSError(errno.EIO, f"bytes {start} to {stop} were asked for, and {at - start} have come", where)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        where = self.locate(path)
        try:
            with translated(where):
                yield
        except FileNotFoundError as error:
            if any(self._below(path)):
                raise IsADirectoryError(errno.EISDIR, "there are objects below it, as in a folder", where) from error
            raise

    # --- writing -----------------------------------------------------------------------------------------------------

    def make_folder(self, folder: str, permissions: Permissions = Permissions.UMASK) -> None:
        """A prefix needs no making."""

    def create(self, path: str, content: bytes, permissions: Permissions = Permissions.UMASK) -> bool:
        # A put may have been done although its answer was an error, or none; sent again, it would find itself. What
        # created the file follows from a mark, not from the answer.
        mark = uuid.uuid4().hex
        for attempt in range(1, _TRIES + 1):
            try:
                return self._create(path, content, mark)
            except OSError as error:
                if attempt == _TRIES or error.errno not in _IN_DOUBT:
                    raise
        raise AssertionError("the last try returns or raises")

    def _create(self, path: str, content: bytes, mark: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        more: dict[str, Any] = {"mode": "create", "use_multipart": False, "attributes": {_MARK: mark}}
        with translated(self.locate(path), NO_BUCKET):
            try:
                obstore.put(self._client(), _key(path), content, **more)
            except AlreadyExistsError:
                return self._mark_of(path) == mark
        return True

    def _mark_of(self, path: str) -> str | None:
        import obstore

        try:
            found = obstore.get(self._client(), _key(path), options={"head": True})
        except FileNotFoundError as error:
            # A conflict with another request on the same key, or it has been removed since.
            where = self.locate(path)
            raise OSError(errno.EAGAIN, "the store reports a conflict, but nothing has the name", where) from error
        attributes: dict[str, str] = found.attributes
        return attributes.get(_MARK)

    def put(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> None:
        self._is_obsolete(path)
        content, written = gathered(chunks, _SINGLE_PUT_BYTES)
        self._put(path, written if content is None else content)
        self._is_written(path, content)

    def write_new(self, path: str, blocks: Iterable[bytes]) -> None:
        file = self.stage(path)
        try:
            for block in blocks:
                file.write(block)
            file.keep(path)
        finally:
            file.discard()

    def _send(self, staged: str, path: str, content: io.BufferedIOBase, size: int) -> None:
        whole = size <= _SINGLE_PUT_BYTES
        self._put(path, content.read() if whole else iter(lambda: content.read(_BLOCK_BYTES), b""))

    def _put(self, path: str, content: bytes | Iterator[Buffer]) -> None:
        import obstore

        more = {"use_multipart": False} if isinstance(content, bytes) else {}
        with translated(self.locate(path), NO_BUCKET):
            obstore.put(self._client(), _key(path), content, **more)

    # --- names -------------------------------------------------------------------------------------------------------

    def for_publishing(self, folder: str) -> ObjectStore:
        ways = [self]
        if self.root.startswith(("s3:", "s3a:")) and _COPY_OPTION not in dict(self.options):
            ways = [replace(self, options=(*self.options, (_COPY_OPTION, way))) for way in _WAYS_OF_COPYING]
        for store in ways:
            if store._publishes_exclusively(f"{folder}/probe-{uuid.uuid4().hex}"):
                return store
        raise CheckpointStorageError(
            f"{self.root}: the store does not copy objects without replacing others, so output could be shown twice; "
            "headrace.storage.copy-if-not-exists says how it is asked to"
        )

    def _publishes_exclusively(self, folder: str) -> bool:
        """Tell whether of two files with one target the second keeps its path."""
        first, second, target = (f"{folder}/{name}" for name in ("first", "second", "target"))
        try:
            self._put(first, b"1")
            self._put(second, b"2")
            try:
                return self.publish(first, target) and not self.publish(second, target)
            except OSError as error:
                if not isinstance(error, CheckpointStorageError) and "501 " not in str(error):
                    raise
                return False
        finally:
            with contextlib.suppress(OSError):
                for path in (first, second, target):
                    self.remove(path)

    def publish(self, source: str, target: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with translated(self.locate(source)):
            try:
                obstore.copy(self._client(), _key(source), _key(target), overwrite=False)
            except AlreadyExistsError:
                return False
        self.remove(source)
        return True

    def remove(self, path: str) -> bool:
        import obstore

        self._is_obsolete(path)
        try:
            with translated(self.locate(path)):
                obstore.delete(self._client(), _key(path))
        except FileNotFoundError:
            return False
        return True

    def remove_all(self, paths: Sequence[str]) -> None:
        import obstore

        for path in paths:
            self._is_obsolete(path)
        try:
            with translated(self.locate(paths[0].rpartition("/")[0] if paths else "")):
                obstore.delete(self._client(), list(map(_key, paths)))
        except FileNotFoundError:  # some stores mind, and some of them stop there
            for path in paths:
                self.remove(path)

    def _client(self) -> Any:
        return client(self.root, self.options)


def _key(path: str) -> str:
    return path.strip("/")


def _entry(found: Mapping[str, Any]) -> Entry:
    # Of the time only the seconds are the same in all answers.
    seconds = int(found["last_modified"].timestamp())
    version = f"{found['e_tag']}"
    if not version.endswith('"'):  # as Azure lists it, but not in the answer about the object
        version = f'"{version}"'
    digest = int.from_bytes(hashlib.blake2b(version.encode(), digest_size=8).digest()) % _NANOS
    return Entry(found["path"].rpartition("/")[2], EntryKind.FILE, found["size"], seconds * _NANOS + digest)
