"""A directory in memory that may lose power before or after any step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.state.harness import MemoryFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.storage.folder import Folder


class PowerFailureError(BaseException):
    """Nothing in the engine catches it."""


class Power:
    """How many steps are left until it fails.

    Attributes:
        steps: so many; None for ever.
    """

    def __init__(self) -> None:
        self.steps: int | None = None

    def step(self, work: Callable[[], Any]) -> Any:
        """Do something that changes files; the last step is done, and nobody hears of it."""
        if self.steps == 0:
            raise PowerFailureError
        result = work()
        if self.steps is not None:
            self.steps -= 1
            if self.steps == 0:
                raise PowerFailureError
        return result


class Disk(MemoryFolder):
    """A folder of a tree of them.

    Args:
        power: that of the whole tree.
        files: of the whole tree, by path.
        path: where the folder is.
    """

    def __init__(self, power: Power, files: dict[str, bytes], path: str = "") -> None:
        super().__init__()
        self._power = power
        self._tree = files
        self._path = path

    def folder(self, name: str) -> Folder:
        return Disk(self._power, self._tree, f"{self._path}{name}/")

    def create(self, name: str, content: bytes) -> bool:
        return bool(self._power.step(lambda: self._tree.setdefault(self._path + name, content) is content))

    def write(self, name: str, chunks: Iterable[Any], *, durable: bool = True) -> None:
        self._power.step(lambda: self._tree.update({self._path + name: b"".join(map(bytes, chunks))}))

    def read(self, name: str) -> bytes:
        try:
            return self._tree[self._path + name]
        except KeyError:
            raise FileNotFoundError(self._path + name) from None

    def size(self, name: str) -> int | None:
        content = self._tree.get(self._path + name)
        return None if content is None else len(content)

    def names(self) -> list[str]:
        below = (path.removeprefix(self._path) for path in self._tree if path.startswith(self._path))
        return sorted(name for name in below if "/" not in name)

    def remove(self, name: str) -> bool:
        return self._power.step(lambda: self._tree.pop(self._path + name, None)) is not None
