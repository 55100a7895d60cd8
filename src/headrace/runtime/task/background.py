"""Work beside the epochs: what a task does with an item, on every runtime; and compaction, which is such work."""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.common.errors import EXITS, JobExecutionError, StateCorruptedError, StateError
from headrace.common.logs import get_logger
from headrace.state.backend import CompactionOutcome, CompactionWork, StateBackendPlugin
from headrace.storage.folder import Folder

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The result of an item.

    What was raised travels like a result. A runtime that has to guess from a task's failure what was raised would take
    a refusal for a fault that passes.

    Attributes:
        value: the result.
        error: what was raised instead.
    """

    value: object = None
    error: Exception | None = None

    def result(self) -> Any:
        """The result.

        Raises:
            Exception: what the work has raised.
        """
        if self.error is not None:
            raise self.error
        return self.value

    def to_bytes(self) -> bytes:
        """The outcome for another process; the error has the place where it was raised."""
        if self.error is None:
            return pickle.dumps(self, protocol=5)
        error = self.error if _is_portable(self.error) else _raised(self.error)
        error.add_note("In the task:\n" + "".join(traceback.format_exception(self.error)).rstrip())
        return pickle.dumps(WorkDone(error=error), protocol=5)


def attempt(work: Callable[[Any], object], item: object) -> WorkDone:
    """Return what the work gives for an item, or the exception that it raises."""
    import headrace.operators.run_mergers  # noqa: F401  # the work may merge runs of operators that this process has not

    try:
        return WorkDone(work(item))
    except Exception as error:
        return WorkDone(error=error)
    except EXITS as error:
        return WorkDone(error=_raised(error))


def compact(backend: StateBackendPlugin, storage: Folder, work: CompactionWork) -> CompactionOutcome | None:
    """Do what the backend has planned; None when it cannot be done: its files have gone meanwhile, say."""
    try:
        return backend.run_compaction(storage, work)
    except StateCorruptedError as error:
        # A file that is really damaged is found by the epoch that needs it, and fails the job there.
        logger.info("compaction of partition %d of stage %d is given up: %s", work.partition, work.stage, error)
    except StateError as error:
        logger.warning("partition %d of stage %d is not compacted: %s", work.partition, work.stage, error)
    return None


def _is_portable(error: Exception) -> bool:
    """Return whether an error can be pickled and comes back as it was; many exceptions of several arguments do not."""
    try:
        copy = pickle.loads(pickle.dumps(error, protocol=5))
    except Exception:
        return False
    return type(copy) is type(error) and str(copy) == str(error)


def _raised(error: BaseException) -> JobExecutionError:
    return JobExecutionError(f"work beside the epochs raised {type(error).__name__}: {error}")
