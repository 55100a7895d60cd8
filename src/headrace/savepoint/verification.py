"""Whether all that a savepoint or a checkpoint consists of is there, as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.common.errors import CheckpointError, StateCorruptedError
from headrace.savepoint.tables import read_file
from headrace.state.backend import STATE_BACKENDS

if TYPE_CHECKING:
    from headrace.savepoint.stored_job import StoredJob


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found to be whole.

    Attributes:
        job_name: the job's name.
        epoch: the epoch that it was at the end of.
        files: how many files there are, without metadata and manifest.
        size: how many bytes they have.
    """

    job_name: str
    epoch: int
    files: int
    size: int


def verify(job: StoredJob) -> Verified:
    """Read all files of a job, and compare them with the digests and checksums that were written with them.

    Not of what sources keep in a checkpoint directory: only they know what it has to be, and look at a start. In a
    savepoint it has a digest.

    Raises:
        StateCorruptedError: naming what is missing or damaged, of each file of a savepoint and of each task.
        OSError: when a file cannot be read.
    """
    damages = dict.fromkeys(damage for check in _checks(job) if (damage := _damage(check)))
    if damages:
        raise StateCorruptedError("\n  ".join([f"{job.location} is not whole:", *damages]))
    sizes = [file.size for file in job.files]
    if job.state is not None:
        sizes += [job.state.size(name) or 0 for name in sorted(set(job.manifest.state_files()))]
    return Verified(job.manifest.job_name, job.manifest.epoch, len(sizes), sum(sizes))


def _checks(job: StoredJob) -> Iterator[Callable[[], object]]:
    """What reads a part each."""
    if job.directory is not None:
        yield from (partial(read_file, job.directory, file) for file in job.files)
    if job.state is not None:
        verify_version = partial(STATE_BACKENDS.load(job.manifest.state_backend).verify, job.state)
        yield from (partial(verify_version, version) for version in job.versions())


def _damage(check: Callable[[], object]) -> str:
    """What is wrong with a part; empty for nothing."""
    try:
        check()
    except (CheckpointError, StateCorruptedError) as error:
        return str(error)
    return ""
