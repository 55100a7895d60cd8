"""Draws what the demo shows on a terminal, for the documentation: python docs/images/draw_panel.py.

The job runs in this process; the picture has a moment of its last tenth, and how it ends. Rates are by the time of the
processor, so what else the machine is doing does not matter.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from headrace.cli.run import run_script
from headrace.client.displays import ProgressListener, panels
from headrace.client.progress import JobProgress
from headrace.client.running import submission_defaults
from headrace.jobmanager.events import EpochStatistics, JobEvent
from headrace.jobmanager.status import JobSnapshot

HERE = Path(__file__).parent
PROGRAM = HERE.parent.parent / "examples" / "card_fraud" / "demo.py"
PICTURE = HERE / "panel.svg"
SETTINGS = {
    "headrace.runtime": "local",
    "parallelism.default": "2",
    "headrace.epoch.max-records": "50000",
    "headrace.epoch.target-duration": "1 min",
}
FONT_FROM_ELSEWHERE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
ALERTS = 4
"""So many alerts are in the picture."""


class Recorder(ProgressListener):
    """Keeps the panel as it was after each epoch, and what is said and printed."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), width=96), time.process_time)
        self._ended = time.process_time()
        self.moments: list[str] = []
        self.said: list[str] = []
        self.printed = io.StringIO()

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Take the epoch's time from the clock that all rates are by."""
        if isinstance(event, EpochStatistics):
            began, self._ended = self._ended, time.process_time()
            event = replace(event, planning=0.0, running=self._ended - began, checkpointing=0.0)
            job = replace(job, latest=event, epochs=(*job.epochs[:-1], event))
        super().__call__(event, job)

    def advanced(self, job: JobProgress) -> None:
        """Keep the panel."""
        self.moments.append(self._text(panels([job])))

    def say(self, line: str) -> None:
        """Keep the line."""
        self.said.append(line)

    def _text(self, renderable: RenderableType) -> str:
        console = Console(file=io.StringIO(), width=96, force_terminal=True, color_system="truecolor")
        with console.capture() as captured:
            console.print(renderable)
        return captured.get()


def recorded(payments: int) -> Recorder:
    """The demo with so many payments, run to its end."""
    recorder = Recorder()
    arguments = ["--payments", str(payments), "--rate", "0", "--output"]
    with (
        tempfile.TemporaryDirectory() as folder,
        submission_defaults(SETTINGS, recorder),
        contextlib.redirect_stdout(recorder.printed),
    ):
        run_script(PROGRAM, [*arguments, folder])
    return recorder


def picture(recorder: Recorder) -> str:
    """The terminal as one SVG document that needs nothing from elsewhere."""
    first, *_, last = recorder.said
    moment = recorder.moments[len(recorder.moments) * 9 // 10]
    alerts, _, summary = recorder.printed.getvalue().partition("\n\n")
    console = Console(file=io.StringIO(), width=96, record=True, force_terminal=True)
    console.print(Text("$ make demo", "bold"))
    console.print(first, markup=False, highlight=False)
    console.print("  …", *alerts.splitlines()[-ALERTS:], sep="\n", markup=False, highlight=False)
    console.print(Text.from_ansi(moment))
    console.print(last, markup=False, highlight=False, soft_wrap=True)
    console.print(f"\n{summary.partition('headrace log')[0].rstrip()}", markup=False, highlight=False)
    return FONT_FROM_ELSEWHERE.sub("", console.export_svg(title="headrace", unique_id="panel"))


if __name__ == "__main__":
    PICTURE.write_text(picture(recorded(2_000_000)), encoding="utf-8")
