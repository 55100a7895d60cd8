"""Tables of savepoints that are written when a test lets them be, and epochs that fail when it wants them to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from headrace.common.errors import InfrastructureError
from headrace.runtime.local import LocalRuntime
from headrace.savepoint.tasks import export_version


class HeldRuntime:
    """Takes the place of what the local runtime does.

    Args:
        patch: puts it there.

    Attributes:
        asked: set when tables are to be written.
        may_work: they are written when it is set.
        failures: so many of the next epochs fail.
        failed: so many have failed.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked, self.may_work = threading.Event(), threading.Event()
        self.failures = self.failed = 0
        work, run = LocalRuntime.run_background, LocalRuntime.run_epoch

        def run_background(
            runtime: LocalRuntime, what: Callable[[Any], Any], items: Sequence[Any], **more: Any
        ) -> Future[list[Any]]:
            if getattr(what, "func", None) is not export_version:
                return work(runtime, what, items, **more)
            later: Future[list[Any]] = Future()

            def do() -> None:
                self.may_work.wait()
                try:
                    later.set_result(work(runtime, what, items, **more).result())
                except Exception as error:
                    later.set_exception(error)

            threading.Thread(target=do, daemon=True).start()
            self.asked.set()
            return later

        def run_epoch(runtime: LocalRuntime, context: Any) -> Any:
            if self.failures:
                self.failures -= 1
                self.failed += 1
                raise InfrastructureError("an executor was lost")
            return run(runtime, context)

        patch.setattr(LocalRuntime, "run_background", run_background)
        patch.setattr(LocalRuntime, "run_epoch", run_epoch)
