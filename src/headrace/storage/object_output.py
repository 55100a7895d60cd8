"""Output on an object store: what is staged is shown by a copy that replaces nothing.

A copy is one step of the store, which fails when what is copied is not there any more. So a committer cannot show what
its successor has removed: an area is taken away by removing first its mark, then what is in it. Whoever has put
something there looks for the mark before it copies; when it was there, what it has put is seen by the successor.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import CheckpointStorageError
from headrace.storage.object_client import NO_BUCKET, client, translated
from headrace.storage.output import OutputTree, is_put_together
from headrace.storage.spooled_file import SpooledFile

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

    from headrace.storage.object_client import Options
    from headrace.storage.output import StagedFile

_MARK: Final = "owner"
"""The object that says that an area is its committer's."""

_BLOCK_BYTES: Final = 4 << 20
_SINGLE_PUT_BYTES: Final = 16 << 20
"""What is larger is sent in several parts."""

_COPY_OPTION: Final = "copy_if_not_exists"
_WAYS_OF_COPYING: Final = ("header: if-none-match: *", "multipart")
"""How S3 is asked to replace nothing: by a header of the copy, which not all that speak like S3 heed; or when the parts
that were copied are put together, which is not one step any more, but hardly less."""


@dataclass(frozen=True, slots=True)
class ObjectOutput(OutputTree):
    """A prefix of keys in a bucket or container.

    Attributes:
        bucket: the URL of the bucket.
        prefix: of all keys, without slashes at its ends.
        options: how to reach the store; not shown, since there are secrets among them.
    """

    bucket: str
    prefix: str
    options: Options = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    def for_committing(self, folder: str) -> ObjectOutput:
        ways = [self]
        if self.bucket.startswith(("s3:", "s3a:")) and _COPY_OPTION not in dict(self.options):
            ways = [replace(self, options=(*self.options, (_COPY_OPTION, way))) for way in _WAYS_OF_COPYING]
        for tree in ways:
            if tree._copies_exclusively(f"{folder}/probe-{uuid.uuid4().hex}"):
                return tree
        raise CheckpointStorageError(
            f"{self}: the store does not copy objects without replacing others, so output could be shown twice; "
            "headrace.storage.copy-if-not-exists says how it is asked to"
        )

    def stage(self, folder: str, name: str) -> StagedFile:
        return SpooledFile(self.put)

    def open_area(self, area: str) -> None:
        self._put(f"{area}/{_MARK}", b"")

    def has_area(self, area: str) -> bool:
        return self.size(f"{area}/{_MARK}") is not None

    def areas(self, folder: str) -> list[str]:
        import obstore

        with translated(self.locate(folder)):
            found = obstore.list_with_delimiter(self._client(), self._key(folder))
        return sorted(key.rstrip("/").rpartition("/")[2] for key in found["common_prefixes"])

    def put_together(self, area: str, name: str, blocks: Iterable[bytes]) -> None:
        path = f"{area}/{name}"
        file = SpooledFile(self.put)
        try:
            for block in blocks:
                file.write(block)
            file.keep(path)
        finally:
            file.discard()
        if not self.has_area(area):
            self.remove(path)
            raise FileNotFoundError(errno.ENOENT, "it has been taken away", self.locate(area))

    def take_away(self, area: str, other: str) -> None:
        self.remove(f"{area}/{_MARK}")
        self.clear_area(area)

    def clear_area(self, area: str) -> None:
        for path in list(self.files(area)):
            name = path.rpartition("/")[2]
            if name == _MARK or is_put_together(name):
                self.remove(path)

    def show(self, source: str, target: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with translated(self.locate(source)):
            try:
                obstore.copy(self._client(), self._key(source), self._key(target), overwrite=False)
            except AlreadyExistsError:
                return False
        self.remove(source)
        return True

    def size(self, path: str) -> int | None:
        import obstore

        try:
            with translated(self.locate(path)):
                return int(obstore.head(self._client(), self._key(path))["size"])
        except FileNotFoundError:
            return None

    def blocks(self, path: str) -> Iterator[bytes]:
        import obstore

        with translated(self.locate(path)):
            for block in obstore.get(self._client(), self._key(path)).stream(_BLOCK_BYTES):
                yield bytes(block)

    def remove(self, path: str) -> bool:
        import obstore

        try:
            with translated(self.locate(path)):
                obstore.delete(self._client(), self._key(path))
        except FileNotFoundError:
            return False
        return True

    def make_durable(self, paths: Iterable[str]) -> None:
        """What was put is durable."""

    def files(self, folder: str, without: str | None = None) -> Iterator[str]:
        import obstore

        start = len(self.prefix) + 1 if self.prefix else 0
        with translated(self.locate(folder)):
            for entries in obstore.list(self._client(), self._key(folder) or None):
                for entry in entries:
                    path = entry["path"][start:]
                    if without is None or not any(part.startswith(without) for part in path.split("/")[:-1]):
                        yield path

    def remove_empty_folders(self, folder: str) -> None:
        """There are no empty folders."""

    def put(self, path: str, content: io.BufferedIOBase, size: int) -> None:
        """Create or replace an object.

        Raises:
            OSError: when it cannot be told that it is there, whole.
        """
        if size <= _SINGLE_PUT_BYTES:
            self._put(path, content.read())
            return
        import obstore

        with translated(self.locate(path), NO_BUCKET):
            obstore.put(self._client(), self._key(path), iter(lambda: content.read(_BLOCK_BYTES), b""))

    def _put(self, path: str, content: bytes) -> None:
        import obstore

        with translated(self.locate(path), NO_BUCKET):
            obstore.put(self._client(), self._key(path), content, use_multipart=False)

    def _copies_exclusively(self, folder: str) -> bool:
        """Whether of two copies to one name the second fails."""
        first, second, target = (f"{folder}/{name}" for name in ("first", "second", "target"))
        try:
            self._put(first, b"1")
            self._put(second, b"2")
            try:
                return self.show(first, target) and not self.show(second, target)
            except OSError as error:
                if not isinstance(error, CheckpointStorageError) and "501 " not in str(error):
                    raise
                return False
        finally:
            with contextlib.suppress(OSError):
                for path in (first, second, target):
                    self.remove(path)

    def _key(self, path: str) -> str:
        return "/".join(filter(None, [self.prefix, path]))

    def _client(self) -> Any:
        return client(self.bucket, self.options)
