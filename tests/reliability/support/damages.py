"""What may happen to a file on a disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MINE = "this is mine"
"""What is in files that are somebody else's."""


@dataclass(frozen=True)
class Scene:
    """Files of one kind, one of which is damaged.

    Attributes:
        files: the files; the first one is to be damaged.
        old: such a file as it was some epochs ago.
        namesake: a name beside the file that a file of its kind, or one that is being written, could have.
    """

    files: Sequence[Path]
    old: Path
    namesake: Path

    @property
    def file(self) -> Path:
        return self.files[0]

    @property
    def may_be_named(self) -> list[Path]:
        """What an error may name: the file, one that it was swapped with, what lies beside it, the log it is of."""
        logs = [path.parent for path in self.files[:2] if path.parent.suffix == ".log"]
        return [*self.files[:2], self.namesake, *logs]

    def put_back(self, intact: Callable[[Path], Path]) -> None:
        """Restore what was damaged, and remove what was put beside it.

        Args:
            intact: where a file is as it was.
        """
        if self.namesake.exists():
            shutil.rmtree(self.namesake)
        for file in self.files[:2]:
            if file.is_dir():
                shutil.rmtree(file)
            if file is self.file or file.exists():
                shutil.copy2(intact(file), file)


Damage = Callable[[Scene], None]


def flip(share: float) -> Damage:
    """Change one bit of the byte at such a place."""

    def damage(scene: Scene) -> None:
        content = bytearray(scene.file.read_bytes())
        content[min(int(len(content) * share), len(content) - 1)] ^= 1
        scene.file.write_bytes(bytes(content))

    return damage


def cut(length: Callable[[int], int]) -> Damage:
    """Keep so many bytes."""
    return lambda scene: os.truncate(scene.file, length(scene.file.stat().st_size))


def extend(by: Callable[[bytes], bytes]) -> Damage:
    """Append something."""

    def damage(scene: Scene) -> None:
        content = scene.file.read_bytes()
        scene.file.write_bytes(content + by(content))

    return damage


def swap(scene: Scene) -> None:
    one, other = scene.files[:2]
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def put_in_place(scene: Scene) -> None:
    shutil.copy2(scene.old, scene.file)


def put_beside(scene: Scene) -> None:
    target = scene.file.with_name(scene.old.name)
    if not target.exists():
        shutil.copy2(scene.old, target)


def put_folder(scene: Scene) -> None:
    scene.file.unlink()
    make_folder(scene.file)


def make_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "README").write_text(MINE)


def add_strangers(scene: Scene) -> None:
    """What administrators, tools and file systems put into folders."""
    folder = scene.file.parent
    for name in ("lost+found", ".snapshot", "a folder"):
        make_folder(folder / name)
    for name in ("README", "x.tmp", ".x.tmp", ".nfs0001", "x.state", "x.part", "files-x.log", "x.json", "²"):
        (folder / name).write_text(MINE)


CASES: dict[str, tuple[str, Damage]] = {
    "flipped-at-the-start": ("a bit flipped", flip(0.0)),
    "flipped-in-the-middle": ("a bit flipped", flip(0.5)),
    "flipped-at-the-end": ("a bit flipped", flip(1.0)),
    "empty": ("cut short", cut(lambda size: 0)),
    "half": ("cut short", cut(lambda size: size // 2)),
    "without-the-last-byte": ("cut short", cut(lambda size: size - 1)),
    "a-newline-more": ("extended", extend(lambda content: b"\n")),
    "twice": ("extended", extend(lambda content: content)),
    "swapped": ("two swapped", swap),
    "deleted": ("deleted", lambda scene: scene.file.unlink()),
    "old-copy-in-place": ("an old copy in its place", put_in_place),
    "old-copy-beside": ("an old copy beside it", put_beside),
    "folder-in-place": ("a folder in its place", put_folder),
    "namesake": ("a folder with such a name beside it", lambda scene: make_folder(scene.namesake)),
    "strangers": ("strangers beside it", add_strangers),
}
"""By name, the damage and where the table tells its outcome."""


def content(path: Path) -> bytes | None:
    """What is in a file; None where there is none."""
    return path.read_bytes() if path.is_file() else None


def belongings(folder: Path) -> list[Path]:
    """The files below a folder that somebody else has put there."""
    return [path for path in folder.rglob("*") if content(path) == MINE.encode()]
