"""A plugin of pytest, found wherever headrace is installed: the fixture ``headrace_job``, and one option.

Every run of pytest imports this module, so it imports nothing of headrace before a test requests a job.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from headrace.common import Configuration
    from headrace.testing import Checkpoint, JobHarness

_PARALLELISM: Final = "--headrace-parallelism"
_HARNESSES: Final = pytest.StashKey[list["JobHarness"]]()


class HarnessMaker(Protocol):
    """The fixture ``headrace_job``: makes harnesses, which are closed when the test has ended."""

    def __call__(
        self,
        build: Callable[[JobHarness], object],
        *,
        parallelism: int | None = None,
        restore: Checkpoint | None = None,
        processing_time: int | datetime = 0,
        configuration: Configuration | Mapping[str, str] | None = None,
        fresh_functions: bool = True,
    ) -> JobHarness:
        """A harness, open; arguments are those of :class:`~headrace.testing.JobHarness`.

        Args:
            build: makes the job's streams.
            parallelism: subtasks of each operator; when left out, what ``--headrace-parallelism`` says, else 1.
            restore: a checkpoint of the same job to go on from.
            processing_time: what the clock shows first, in milliseconds, or a date and time with a time zone.
            configuration: more settings of the job.
            fresh_functions: make the functions of the job anew for each epoch.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the option."""
    parser.getgroup("headrace").addoption(
        _PARALLELISM,
        type=_at_least_one,
        default=1,
        metavar="N",
        help="the parallelism of jobs that the fixture headrace_job makes, where a test does not say otherwise",
    )


@pytest.fixture
def headrace_job(request: pytest.FixtureRequest) -> Iterator[HarnessMaker]:
    """Makes harnesses: ``headrace_job(build)`` is an open ``JobHarness``, which is closed when the test has ended."""
    from headrace.testing import JobHarness

    with ExitStack() as opened:
        harnesses = request.node.stash.setdefault(_HARNESSES, [])

        def make(
            build: Callable[[JobHarness], object], *, parallelism: int | None = None, **arguments: Any
        ) -> JobHarness:
            if parallelism is None:
                parallelism = request.config.getoption(_PARALLELISM)
            harness = opened.enter_context(JobHarness(build, parallelism=parallelism, **arguments))
            harnesses.append(harness)
            return harness

        yield make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a test that fails how far its jobs had come."""
    report = yield
    if report.when == "call" and report.failed:
        for harness in item.stash.get(_HARNESSES, []):
            report.sections.append(("headrace job", harness.summary()))
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Says which records are missing, and which were not expected, where a test compares what has reached a sink."""
    known = sys.modules.get("headrace.testing.pushed")
    if known is None or op != "==" or not (isinstance(left, list) and isinstance(right, list)):
        return None
    if isinstance(left, known.PushedRecords):
        return ["records are not as expected", *left.difference(right)]
    if isinstance(right, known.PushedRecords):
        return ["records are not as expected", *right.difference(left)]
    return None


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"{_PARALLELISM}: at least 1, not {text!r}")
    return int(text)
