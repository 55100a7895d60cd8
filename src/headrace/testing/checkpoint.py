"""``Checkpoint``: what a driven job has come to, kept for other harnesses."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Checkpoint:
    """The state of a job at the end of an epoch, to start other harnesses from; it can be used any number of times.

    Args:
        source: the job's checkpoint directory.

    Attributes:
        directory: a copy of it, which is removed with this object: keep the checkpoint as long as its folder is used.

    Examples:
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     words = harness.add_source("words", str)
        ...     harness.add_sink("longest", words.key_by(len).max(0).uid("longest"))
        >>> with JobHarness(job) as harness:
        ...     harness.push("words", "tea")
        ...     checkpoint = harness.checkpoint()
        >>> with JobHarness(job, restore=checkpoint) as harness:
        ...     harness.push("words", "pie")
        ...     harness.run_epoch()
        ...     print(harness.results("longest"))
        ['tea']
    """

    def __init__(self, source: Path) -> None:
        self.directory = temporary_folder(self)
        shutil.copytree(source, self.directory, dirs_exist_ok=True)


def temporary_folder(owner: object) -> Path:
    """A folder that goes at the latest with its owner."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder
