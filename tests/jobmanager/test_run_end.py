"""Why a run really ended, and what becomes of its checkpoints then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.common.errors import JobCancelledError, JobExecutionError, JobSupersededError
from headrace.jobmanager import failover
from headrace.jobmanager.checkpoints import discard_checkpoints
from headrace.jobmanager.settings import Retention


class Checkpoints:
    """Those of a job that has run ten epochs.

    Args:
        owner: what a look whose they are raises.
        finished: whether the job has come to its end.
        broken: what deleting them raises.
    """

    def __init__(
        self, owner: Exception | None = None, *, finished: bool = False, broken: Exception | None = None
    ) -> None:
        self._owner, self._broken = owner, broken
        self.newest: Any = SimpleNamespace(epoch=10, finished=finished)
        self.is_discarded = False

    def known(self) -> Any:
        return self.newest

    def check_owner(self) -> None:
        if self._owner is not None:
            raise self._owner

    def discard(self) -> None:
        if self._broken is not None:
            raise self._broken
        self.is_discarded = True


def root_cause(checkpoints: Any, failure: BaseException, *, cancelled: bool = False) -> BaseException:
    given_up = failover.cancellation("orders", checkpoints.newest) if cancelled else None
    return failover.root_cause(failure, "orders", checkpoints.check_owner, given_up)


def discard(checkpoints: Any, retention: Retention, error: Exception | None = None, *, has_run: bool = True) -> None:
    discard_checkpoints(checkpoints, retention, "orders", error, has_run=has_run)


SUPERSEDED = JobSupersededError("another job manager has taken over")


@pytest.mark.parametrize("cancelled", [False, True])
def test_who_was_superseded_failed_for_that_reason(cancelled: bool) -> None:
    checkpoints = Checkpoints(SUPERSEDED)
    assert root_cause(checkpoints, FileNotFoundError("a state file"), cancelled=cancelled) is SUPERSEDED
    own = JobSupersededError("found out by itself")
    assert root_cause(checkpoints, own, cancelled=cancelled) is own


@pytest.mark.parametrize("owner", [None, OSError("the storage is away")])
def test_what_fails_while_a_job_is_cancelled_fails_for_that_reason(owner: OSError | None) -> None:
    told = root_cause(Checkpoints(owner), ValueError("torn down"), cancelled=True)
    assert isinstance(told, JobCancelledError)
    assert str(told) == "job 'orders' was cancelled after epoch 10"


@pytest.mark.parametrize("owner", [None, OSError("the storage is away")])
def test_every_other_failure_is_the_reason_itself(owner: OSError | None) -> None:
    failure = ValueError("a bug")
    assert root_cause(Checkpoints(owner), failure) is failure


def test_an_exit_of_the_users_code_is_a_failure() -> None:
    told = root_cause(Checkpoints(), SystemExit(3))
    assert isinstance(told, JobExecutionError)
    assert "raised SystemExit: 3; it has to raise an exception instead" in str(told)


FAILED, CANCELLED = ValueError("a bug"), JobCancelledError("given up")
FINISHED, STOPPED = "finished", "stopped"
ALL = [FAILED, CANCELLED, SUPERSEDED, FINISHED, STOPPED]


@pytest.mark.parametrize(
    ("retention", "deletes"),
    [
        (Retention.RETAIN_ON_CANCELLATION, []),
        (Retention.DELETE_ON_CANCELLATION, [CANCELLED]),
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, [FAILED, CANCELLED, FINISHED]),
    ],
)
def test_checkpoints_go_after_the_ends_that_the_configuration_names(retention: Retention, deletes: list[Any]) -> None:
    def is_discarded(how: Any, *, has_run: bool = True) -> bool:
        checkpoints = Checkpoints(finished=how == FINISHED)
        error = how if isinstance(how, Exception) else None
        discard(checkpoints, retention, error, has_run=has_run)
        return checkpoints.is_discarded

    assert [how for how in ALL if is_discarded(how)] == deletes
    assert not is_discarded(FAILED, has_run=False), "it may have failed because they are somebody else's"


def test_checkpoints_that_cannot_be_deleted_hide_nothing(caplog: pytest.LogCaptureFixture) -> None:
    checkpoints = Checkpoints(finished=True, broken=OSError("the storage is away"))
    discard(checkpoints, Retention.NO_EXTERNALIZED_CHECKPOINTS)
    assert "job 'orders': deleting its checkpoints failed" in caplog.text
