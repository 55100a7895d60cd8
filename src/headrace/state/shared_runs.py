"""Runs of broadcast state, which all subtasks of an operator have alike: where they lie, and how it shows they are.

Small ones travel inside the version of each subtask, as other small state does. What has become too large for that is
in one file for all. Nothing of this depends on what else a subtask has in its state, so all subtasks decide alike.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo.base import PICKLED
from headrace.state.operator.redistribution import is_broadcast
from headrace.state.state_file import CompactedName, ImageWriter, SharedName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.runs import Run
    from headrace.state.runs.sections import Section
    from headrace.storage.file_system import MappedFile
    from headrace.storage.folder import Folder

    StoredRun = tuple[str, Run]
    """A run, and the store that it is in."""

PART_INSIDE: Final = 2
"""One part in so many of what a version may hold itself is for broadcast state."""


def is_alike(store: str, meta: dict[str, Any]) -> bool:
    """Whether equal entries of a run have equal bytes: those of pickled objects follow from how these are put together.

    Args:
        store: the store of the run.
        meta: what the run says about itself.
    """
    return is_broadcast(store) and PICKLED not in json.dumps(meta.get("types"))


def is_for_all(file: str) -> bool:
    """Whether a file with such runs is one that all subtasks refer to, and not the version of one of them."""
    return SharedName.parse(file) is not None or CompactedName.parse(file) is not None


@dataclass(frozen=True)
class SharedRuns:
    """How the subtasks of a stage put broadcast state that is new in an epoch into their versions.

    Attributes:
        epoch: the epoch.
        generation: that of the job manager.
        stage: the stage.
        is_first: whether this is the first subtask, which writes what is for all.
        most_inside: up to how many bytes of an operator stay inside the version.
        storage: where state files are.
        loader: gives what loads a file.
    """

    epoch: int
    generation: int
    stage: int
    is_first: bool
    most_inside: int
    storage: Folder
    loader: Callable[[str], Callable[[], MappedFile]]

    def place(self, uid: str, runs: Sequence[StoredRun]) -> str:
        """Puts the runs that are in no file for all subtasks into one, unless they are small.

        Args:
            uid: the operator.
            runs: all of its runs that are alike, in the order of their stores.

        Returns:
            A digest of what all of them hold, wherever they lie.
        """
        loose = [run.section for _, run in runs if not is_for_all(run.section.file)]
        writer = ImageWriter()
        offsets = [writer.add(section) for section in loose]
        if loose and writer.size > self.most_inside:
            self._write(uid, writer, loose, offsets)
        else:
            for section in loose:
                section.taken_along()
        return _digest_of(runs)

    def _write(self, uid: str, writer: ImageWriter, sections: Sequence[Section], offsets: Sequence[int]) -> None:
        """Has the first subtask write a file; the others refer to it by the digest of what they would have written."""
        described = [section.describe(offset) for section, offset in zip(sections, offsets, strict=True)]
        chunks = writer.finish({"shared": uid, "stage": self.stage, "runs": described})
        owner = SharedName.owner_of(uid)
        name = str(SharedName(self.epoch, self.generation, self.stage, owner, writer.digest))
        if self.is_first:
            self.storage.write(name, chunks)
        for section, offset in zip(sections, offsets, strict=True):
            section.moved_to(name, offset, self.loader(name))


def _digest_of(runs: Sequence[StoredRun]) -> str:
    """A digest of what runs hold, all of which have been encoded before."""
    told = [{**run.section.describe(0), "store": store, "meta": run.meta} for store, run in runs]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()
