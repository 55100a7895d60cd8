"""Which answers are given again."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot, StatusChange
from headrace.server.recent_answers import RecentAnswers

JOB = JobSnapshot("job", "run", (StatusChange(JobStatus.RUNNING, 0),))


def test_an_answer_is_given_again_until_the_job_has_changed_or_time_has_passed() -> None:
    now, answer = [0.0], Response()
    answers, key = RecentAnswers(lambda: now[0]), ("/jobs/overview", b"")
    assert answers.get(key, [JOB]) is None
    answers.keep(key, [JOB], answer)
    assert answers.get(key, [JOB]) is answer
    assert answers.get(("/jobs/overview", b"x=1"), [JOB]) is None
    assert answers.get(key, [replace(JOB)]) is None
    assert answers.get(key, [JOB, JOB]) is None
    now[0] = 0.5
    assert answers.get(key, [JOB]) is None


def test_few_answers_are_kept() -> None:
    now, answers = [0.0], RecentAnswers(lambda: now[0])
    for number in range(1_000):
        now[0] = number / 10_000
        answers.keep((str(number), b""), [JOB], Response())
    assert len(answers._given) <= 64
    assert answers.get(("999", b""), [JOB]) is not None
