"""The driver's half of a sink: what tasks hand over for a commit, and how it is committed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.storage.folder import Folder


T = TypeVar("T")
R = TypeVar("R")


class RunInTasks(Protocol):
    """Runs work on the cluster, beside the epochs."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do something with every item, each in a task of its own, and wait for it.

        Args:
            work: what to do; it may be done twice, and for some items only when this fails.
            items: what to do it with; they and the results travel as pickles.

        Raises:
            OSError: on a passing fault.
        """


def run_here(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Run work in this process."""
    return [work(item) for item in items]


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """What a committer is made with.

    Attributes:
        job_id: the job's id.
        operator_id: the sink's uid.
        input_type: the type of the records.
        generation: as in :class:`WriterContext`. A committer of an older generation may still be alive, even in the
            middle of a commit: see to it when the committer is made that it can make nothing visible any more,
            or that what it makes visible is what this one would.
        restored_epoch: the epoch that the job goes on from; 0 when it begins.
        run_in_tasks: for a commit that is more than the driver should do alone (very many partitions to publish).
        storage_options: as in :class:`WriterContext`.
        parallelism: how many parallel writers there are now; pending committables may be of more of them.
        folder: as in :class:`WriterContext`.
        waiting: the epochs of which the checkpoint does not know that they were committed, in their order: the first
            that a committer is asked for.
    """

    job_id: str
    operator_id: str
    input_type: TypeInformation
    generation: int = 0
    restored_epoch: int = 0
    run_in_tasks: RunInTasks = run_here
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    parallelism: int = 1
    folder: Folder | None = field(default=None, repr=False)
    waiting: tuple[int, ...] = ()


class Committer(ABC):
    """Makes committables visible; lives in the driver, epochs arrive in order, perhaps more than once."""

    @abstractmethod
    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        """Make the committables of an epoch visible; doing it again changes nothing.

        A job manager that has been superseded may be doing the same at this moment. So every step that others can see
        happens exclusively (a transaction, a rename of a file that is there once) or is fenced by the generation.

        Raises:
            CommitRefusedError: when they can never be committed; the job stops, naming sink and epoch.
            OSError: on a passing fault; the commit is tried again.
        """

    def post_commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        """Do what follows the commit of an epoch: put visible files together, tell others of them.

        Called with what :meth:`commit` was called with, after it, before the commit of the next epoch. The checkpoint
        goes on saying that the epoch is to be committed until this has returned as well: so it happens for each epoch
        whatever fails, but may begin again from the start, also behind a :meth:`commit` that is done again. Name what
        it makes after the epoch, so that doing it again changes nothing. Errors as for :meth:`commit`; after an OSError
        only this is done again.
        """

    def recover(self, in_progress: Json | None) -> None:
        """Called once after a restart when all pending committables are committed.

        See to it that what is in progress is there, and remove what failed attempts left.

        Args:
            in_progress: what :class:`PreCommit` gave last.

        Raises:
            CommitRefusedError: when it is not there.
        """

    def finish(self) -> None:
        """The job has ended and everything is committed: nothing that the sink keeps for itself is needed any more."""

    def close(self) -> None:
        """Let go of connections and files."""


Json = Any


def as_in_a_checkpoint(committables: Iterable[Any]) -> list[Json]:
    """Committables as they come back from a checkpoint: tuples are lists then, and the keys of dicts are text.

    A committer gets them so at once. Else one that relies on more than JSON would find out after its first crash.

    Raises:
        InvalidProgramError: when they are no JSON; the message shows the one that is wrong.
    """
    return [as_json(committable) for committable in committables]


def as_json(value: Any) -> Json:
    """One committable, or what of the output is in progress, as it comes back from a checkpoint.

    Raises:
        InvalidProgramError: when it is no JSON.
    """
    try:
        found: Json = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(
            f"{value!r:.200} cannot be stored in a checkpoint ({error}): make committables of text, numbers, lists "
            "and dicts"
        ) from error
    return found


@dataclass(frozen=True, slots=True)
class PreCommitted:
    """What becomes of the committables of an epoch and of the output that was in progress before.

    Attributes:
        ready: what the committer is asked to commit.
        in_progress: what is written, but waits for more before it is committed; JSON, part of the manifest; None when
            nothing does.
    """

    ready: tuple[Json, ...]
    in_progress: Json | None


class PreCommit(ABC):
    """Decides what of a sink's committables is committed now and what stays in progress; keeps nothing itself."""

    @abstractmethod
    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        """Called before the manifest of every epoch.

        Args:
            in_progress: what this gave in the epoch before.
            committables: what the writers gave in this one.
            processing_time: the epoch's clock reading in milliseconds.
            is_last: whether the job ends with this epoch; nothing can stay in progress then.
        """

    @abstractmethod
    def due(self, in_progress: Json) -> int | None:
        """When something in progress becomes ready by itself, in milliseconds of the job's clock; None: never."""
