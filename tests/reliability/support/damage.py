"""A job that was interrupted when it had files of every kind, and where these are."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.client.running import submission_defaults
from headrace.common import Configuration, Row, Types, WatermarkStrategy
from headrace.connectors.file_system.staging import PartChunk
from headrace.datastream import BroadcastProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.datastream.state import MapStateDescriptor
from headrace.jobmanager.events import EpochStatistics
from headrace.storage.locations import open_storage
from tests.reliability.support.canonical import row_sink
from tests.reliability.support.checkpoints import manifests
from tests.reliability.support.file_sinks import A_FILE_AN_EPOCH, ROLLED_BY_SIZE
from tests.reliability.support.small_jobs import RECORD, CrashError, Recorder, Seen, WatchedSink
from tests.reliability.support.storages import CheckpointDirectory, download, on_posix, upload

COUNT = 1_600
KEYS = 400
FILES = 4
"""Files in each of the two folders of input; half of them are added later."""

STOPPED_AT = 6
CRASHED_AT = 15
SINKS = "shown", "hidden", "rolled"

Records = list[tuple[int, int]]


def write_input(folder: Path, files: range) -> None:
    """Some files in each of two folders; one has the even numbers, the other one the odd ones."""
    for odd, side in enumerate(("left", "right")):
        (folder / side).mkdir(parents=True, exist_ok=True)
        each = COUNT // FILES
        for file in files:
            lines = (f"{number:06}\n" for number in range(file * each + odd, (file + 1) * each, 2))
            (folder / side / f"{file}.txt").write_text("".join(lines))


def expected() -> Records:
    """What every sink has to show, sorted."""
    return [(number, number // KEYS + 1) for number in range(COUNT)]


COUNTS = MapStateDescriptor("counts", Types.LONG(), Types.LONG())


class SeenByAll(BroadcastProcessFunction):
    """Numbers the records of each key that are broadcast, in broadcast state; one subtask shows them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._shows = runtime_context.get_index_of_this_subtask() == 0

    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> None:
        """Others number these."""

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> Iterator[Row]:
        counts = ctx.get_broadcast_state(COUNTS)
        seen = (counts.get(value % KEYS) or 0) + 1
        counts.put(value % KEYS, seen)
        if self._shows:
            yield Row(number=value, seen=seen)


@dataclass(frozen=True)
class Job:
    """Two sources, keyed state, broadcast state, both of which are compacted, and three sinks, on the local runtime.

    Attributes:
        folder: where its checkpoints and its output are.
        input: where its input is.
        elsewhere: makes a checkpoint directory on another storage; what is in the folder moves there, output too, as
            long as the job runs.
    """

    folder: Path
    input: Path
    elsewhere: Callable[[], CheckpointDirectory] | None = None

    def copy(self, folder: Path) -> Job:
        """A job in a folder of its own that is like this one."""
        return replace(self, folder=Path(shutil.copytree(self.folder, folder)))

    def run_until(self, epoch: int) -> None:
        """Run until an epoch is complete."""
        self._run(Recorder(epoch), watch=True)

    def crash_at(self, epoch: int) -> None:
        """Run until an epoch is committed by the first sink, and by no other."""
        crasher = _Crasher(crash_at=epoch)
        try:
            self._run(crasher, watch=True)
        except CrashError:
            return
        raise AssertionError("the job did not die")

    def finish(self) -> None:
        """Run to the end of what has been found."""
        self._run(Recorder(), watch=False)

    def shown(self, sink: str) -> Records:
        """What one of the sinks shows, sorted."""
        return sorted(record for path in self.visible(sink) for record in _records(path))

    def visible(self, sink: str) -> list[Path]:
        """The visible files of one of the sinks, by epoch."""
        found = (path for path in (self.folder / sink).glob("part-*") if path.is_file())
        return sorted(found, key=lambda path: path.name.split("-")[3:] + path.name.split("-")[2:3])

    def _run(self, recorder: Recorder, *, watch: bool) -> None:
        with self._moved() as (checkpoints, output):
            self._execute(checkpoints, output, recorder, watch=watch)

    @contextlib.contextmanager
    def _moved(self) -> Iterator[tuple[CheckpointDirectory, str]]:
        """Where the checkpoints are, and the folders of the sinks."""
        if self.elsewhere is None:
            yield on_posix(self.folder), str(self.folder)
            return
        there = self.elsewhere()
        output = there.location.rpartition("/")[0]
        places = {name: open_storage(f"{output}/{name}", options=there.options) for name in SINKS}
        places["checkpoints"] = there.folder
        for name, place in places.items():
            if (self.folder / name).exists():
                upload(self.folder / name, place)
        try:
            yield there, output
        finally:
            for name, place in places.items():
                shutil.rmtree(self.folder / name, ignore_errors=True)
                download(place, self.folder / name)

    def _execute(self, checkpoints: CheckpointDirectory, output: str, recorder: Recorder, *, watch: bool) -> None:
        settings = self._settings(checkpoints)
        env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(2)
        left, right = (self._numbers(env, side, watch=watch) for side in ("left", "right"))
        by_key = right.key_by(lambda number: number % KEYS, Types.LONG()).process(Seen(), RECORD).uid("seen")
        by_all = right.connect(left.broadcast(COUNTS)).process(SeenByAll(), RECORD).uid("seen-by-all")
        seen = by_key.union(by_all)
        for name in SINKS:
            sink = WatchedSink(row_sink(f"{output}/{name}", ROLLED_BY_SIZE if name == "rolled" else A_FILE_AN_EPOCH))
            if name == "shown" and isinstance(recorder, _Crasher):
                sink.after = recorder.committed
            seen.sink_to(sink).uid(name)
        with submission_defaults({}, recorder):
            env.execute("damaged")

    def _numbers(self, env: StreamExecutionEnvironment, side: str, *, watch: bool) -> Any:
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), self.input / side)
        source = (files.monitor_continuously(1) if watch else files.process_static_file_set()).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), side).uid(side)
        return lines.map(int, Types.LONG()).uid(f"{side}-numbers")

    def _settings(self, checkpoints: CheckpointDirectory) -> Configuration:
        made = Configuration()
        settings = {
            "headrace.runtime": "local",
            "execution.checkpointing.data-inline-threshold": "1b",
            "execution.checkpointing.num-retained": "2",
            "headrace.epoch.max-records": "25",
            "headrace.epoch.target-duration": "60s",
            "restart-strategy.type": "none",
            **checkpoints.settings,
        }
        for key, value in settings.items():
            made.set_string(key, value)
        return made


class _Crasher(Recorder):
    """Lets the driver die when the first sink has committed an epoch."""

    def __init__(self, crash_at: int) -> None:
        super().__init__()
        self._crash_at = crash_at
        self._crashed = threading.Event()

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        if statistics.epoch == self._crash_at:
            self._crashed.wait()  # the committer has a thread of its own

    def committed(self, epoch: int) -> None:
        """A commit is done."""
        if epoch == self._crash_at:
            self._crashed.set()
            raise CrashError


def _records(path: Path) -> Iterator[tuple[int, int]]:
    for line in path.read_text().splitlines():
        number, seen = line.removeprefix("+I[").removesuffix("]").split(", ")
        yield int(number), int(seen)


@dataclass(frozen=True)
class Kinds:
    """Finds the files of a job by their kinds: of each kind two where there are two, what the job needs most first."""

    job: Job

    def find(self, kind: str) -> list[Path]:
        """The files of a kind."""
        found: list[Path] = getattr(self, kind.replace(" ", "_"))()
        return found

    def manifest(self) -> list[Path]:
        return manifests(self.job.folder)[::-1]

    def older_manifest(self) -> list[Path]:
        return self.manifest()[1:]

    def note(self) -> list[Path]:
        return [self._checkpoints / "manifests" / "newest"]

    def generation(self) -> list[Path]:
        return sorted((self._checkpoints / "generations").iterdir(), reverse=True)

    def state_file(self) -> list[Path]:
        return [self._state / version["name"] for version in self._versions()]

    def older_state_file(self) -> list[Path]:
        others = {*self.state_file(), *self.compacted_state_file(), *self.shared_state_file()}
        files = [self._state / name for version in self._versions() for name in version["files"]]
        return [file for file in files if file not in others]

    def compacted_state_file(self) -> list[Path]:
        files = [name for version in self._versions() for name in version["files"]]
        return [self._state / name for name in files if name.startswith("compacted-")]

    def shared_state_file(self) -> list[Path]:
        files = [name for name in self._versions()[0]["files"] if name.startswith("shared-")]
        return [self._state / name for name in sorted(files, key=lambda name: -int(name.split("-")[1]))]

    def source_log(self) -> list[Path]:
        sources = self._newest()["sources"].items()
        logs = ((side, log) for side, source in sources for log, _ in reversed(source["enumerator"]))
        return [path for side, log in logs for path in (self._checkpoints / "sources").glob(f"{side}*/{log}")]

    def hidden_part(self) -> list[Path]:
        parts = [part for _, sink, _, parts in self._newest()["pending"] if sink == "hidden" for part in parts]
        return self._chunks("hidden", [chunk for _, chunks, *_ in parts for chunk in chunks])

    def waiting_part(self) -> list[Path]:
        return self._chunks("rolled", [chunks[0] for _, chunks, *_ in self._newest()["held"]["rolled"][0]])

    def part_just_shown(self) -> list[Path]:
        epochs = [epoch for epoch, sink, *_ in self._newest()["pending"] if sink == "shown"]
        return [path for path in self.job.visible("shown") for epoch in epochs[-1:] if f"-{epoch:06}-" in path.name]

    def visible_part(self) -> list[Path]:
        return self.job.visible("shown")

    @property
    def _checkpoints(self) -> Path:
        return self.job.folder / "checkpoints"

    @property
    def _state(self) -> Path:
        return self._checkpoints / "state"

    def _newest(self) -> Any:
        return json.loads(self.manifest()[0].read_bytes())

    def _versions(self) -> list[Any]:
        (stage,) = [stage for stage in self._newest()["stages"] if stage["partitions"]]
        return [partition["version"] for partition in stage["partitions"]]

    def _chunks(self, sink: str, chunks: list[Any]) -> list[Path]:
        names = [PartChunk(*chunk).file for chunk in chunks]
        return [path for name in names for path in (self.job.folder / sink).rglob(name)]
