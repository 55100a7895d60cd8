"""Which answers are given again."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot, StatusChange
from headrace.server.recent_answers import RecentAnswers

JOB = JobSnapshot("job", "run", (StatusChange(JobStatus.RUNNING, 0),))


class Maker:
    """Makes answers, which are numbered.

    Args:
        seconds: the processor time that each takes.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.now = 0.0
        self.spent = 0.0
        self.made = 0
        self._seconds = seconds
        self.answers = RecentAnswers[int](1.0, 5.0, 0.01, lambda: self.now, lambda: self.spent)

    def make(self) -> int:
        self.made += 1
        self.spent += self._seconds
        return self.made


def test_an_answer_is_made_once_a_second_however_many_ask() -> None:
    maker = Maker()
    answers = maker.answers
    assert [answers.get("a", maker.make) for _ in range(100)] == [1] * 100
    assert answers.get("b", maker.make) == 2
    assert answers.fresh("a") == 1
    maker.now = 1.0
    assert answers.fresh("a") is None
    assert answers.get("a", maker.make) == 3


def test_an_answer_is_given_again_until_the_job_has_changed() -> None:
    maker = Maker()
    answers = maker.answers
    assert answers.fresh("a", [JOB]) is None
    assert answers.get("a", maker.make, [JOB]) == 1
    assert answers.get("a", maker.make, [JOB]) == 1
    assert answers.get("a", maker.make, [replace(JOB)]) == 2
    assert answers.get("a", maker.make, [JOB, JOB]) == 3
    assert answers.fresh("a", [JOB]) is None


def test_few_answers_are_kept() -> None:
    maker = Maker()
    for number in range(1_000):
        maker.answers.get(number, maker.make)
    assert [number for number in range(1_000) if maker.answers.fresh(number) is not None] == [*range(936, 1_000)]


def test_whoever_asks_now_and_then_gets_the_latest() -> None:
    maker = Maker(0.01)
    for number in range(10):
        maker.now = float(number)
        assert maker.answers.get("a", maker.make, [replace(JOB)]) == number + 1


def test_a_flood_of_questions_has_answers_made_less_often() -> None:
    maker = Maker(0.01)
    for number in range(1_000):
        maker.now = number / 10
        maker.answers.get("a", maker.make, [replace(JOB)])
        maker.answers.get("b", maker.make, [replace(JOB)])
    assert 95 <= maker.made <= 110  # a hundredth of 100 seconds, after what the burst has taken


def test_a_flood_does_not_hide_that_a_job_has_ended() -> None:
    maker = Maker(1.0)
    answers = maker.answers
    assert answers.get("a", maker.make, [JOB]) == answers.get("a", maker.make, [replace(JOB)]) == 1
    ended = replace(JOB, history=(*JOB.history, StatusChange(JobStatus.FINISHED, 1)))
    assert answers.get("a", maker.make, [ended]) == 2


@pytest.mark.parametrize("name", ["plan", "savepoints"])
def test_a_flood_does_not_hide_that_a_job_is_another_one(name: str) -> None:
    maker = Maker(1.0)
    answers = maker.answers
    assert answers.get("a", maker.make, [JOB]) == 1
    assert answers.get("a", maker.make, [replace(JOB, completed=7)]) == 1
    changed: Any = {name: object()}
    assert answers.get("a", maker.make, [replace(JOB, **changed)]) == 2


def test_whoever_has_changed_something_gets_the_latest() -> None:
    maker = Maker(1.0)
    answers = maker.answers
    assert answers.get("a", maker.make, [JOB]) == 1
    answers.expire()
    assert answers.get("a", maker.make, [JOB]) == 1
    assert answers.get("a", maker.make, [replace(JOB, completed=7)]) == 2


def test_nobody_waits_for_what_somebody_else_makes() -> None:
    maker = Maker()
    answers = maker.answers
    answers.get("a", maker.make)
    maker.now = 3.0
    assert answers.get("a", lambda: 10 * answers.get("a", maker.make)) == 10


def test_nobody_gets_what_is_old_meanwhile() -> None:
    maker = Maker()
    answers, began, found = maker.answers, threading.Event(), list[int]()
    answers.get("a", maker.make)
    maker.now = 100.0

    def make_slowly() -> int:
        began.set()
        other.join(0.05)
        return maker.make()

    def ask() -> None:
        began.wait()
        found.append(answers.get("a", maker.make))

    other = threading.Thread(target=ask)
    other.start()
    assert answers.get("a", make_slowly) == 2
    other.join()
    assert found == [2]


def test_what_cannot_be_made_is_tried_again() -> None:
    maker = Maker()
    with pytest.raises(RuntimeError, match="broken"):
        maker.answers.get("a", broken)
    assert maker.answers.get("a", maker.make) == 1


def broken() -> int:
    raise RuntimeError("it is broken")
