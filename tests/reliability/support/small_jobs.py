"""Small jobs in this process, on the local runtime: a run takes a fraction of a second."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.client import running
from headrace.client.running import submission_defaults
from headrace.common import Configuration, Row, Types, WatermarkStrategy
from headrace.connectors.sink import Committer, Sink
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from headrace.jobmanager.events import EpochStatistics, JobStart
from tests.reliability.support.numbers import NumbersInSplits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import CommitterContext, PreCommit, SinkWriter, WriterContext
    from headrace.jobmanager.events import JobEvent
    from headrace.jobmanager.status import JobSnapshot

SPLITS = 2
COUNT = 500
EPOCHS = 10
PARALLELISM = 2
RECORD = Types.ROW_NAMED(["number", "seen"], [Types.LONG(), Types.LONG()])


class CrashError(BaseException):
    """The driver dies here; nothing in the engine catches it."""


class WatchedSink(Sink):
    """A sink that tells what it is asked to commit, and may die before or after it has done so.

    Args:
        sink: does the work.
        before: is called with the epoch before a commit.
        after: is called with the epoch after a commit.
    """

    def __init__(
        self,
        sink: Sink,
        before: Callable[[int], None] = lambda epoch: None,
        after: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        self.sink = sink
        self.before = before
        self.after = after
        self.asked: list[int] = []
        self.waiting: tuple[int, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchedSink, (self.sink,)  # tasks do not commit

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self.sink.create_writer(context)

    def create_committer(self, context: CommitterContext) -> Committer:
        self.waiting = context.waiting
        committer = self.sink.create_committer(context)
        assert committer is not None
        return _WatchedCommitter(committer, self)

    def check_output(self, context: CommitterContext) -> None:
        self.sink.check_output(context)

    @property
    def pre_commit(self) -> PreCommit | None:
        return self.sink.pre_commit

    @property
    def is_durable(self) -> bool:
        return self.sink.is_durable

    def validate(self, input_type: TypeInformation) -> None:
        self.sink.validate(input_type)


class _WatchedCommitter(Committer):
    def __init__(self, committer: Committer, sink: WatchedSink) -> None:
        self._committer = committer
        self._sink = sink

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        self._sink.asked.append(epoch)
        self._sink.before(epoch)
        self._committer.commit(epoch, committables, processing_time)
        self._sink.after(epoch)

    def recover(self, in_progress: Any) -> None:
        self._committer.recover(in_progress)

    def finish(self) -> None:
        self._committer.finish()

    def close(self) -> None:
        self._committer.close()


class Seen(KeyedProcessFunction):
    """Numbers the records of each key, in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield Row(number=value, seen=seen)


KEYS = 16


def expected() -> list[tuple[int, int]]:
    """What the job writes, sorted."""
    return [(number, number // KEYS + 1) for number in range(SPLITS * COUNT)]


@dataclass
class Recorder:
    """Knows which epochs were completed; asks the job to stop after one of them."""

    stop_after: int | None = None
    completed: list[int] = field(default_factory=list)
    restored: list[int | None] = field(default_factory=list)

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if isinstance(event, JobStart):
            self.restored.append(event.restored_epoch)
        elif isinstance(event, EpochStatistics):
            self.epoch_completed(event)

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        self.completed.append(statistics.epoch)
        if self.stop_after is not None and statistics.epoch >= self.stop_after:
            running.stop_all()


@dataclass
class SmallJob:
    """A job that can be run again and again on one checkpoint directory.

    Attributes:
        folder: where checkpoints are.
        sink: where it writes to.
        settings: on top of the usual ones.
        pause: seconds that every piece takes to read.
    """

    folder: Path
    sink: Sink
    settings: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0

    @property
    def manifests(self) -> Path:
        return self.folder / "checkpoints" / "manifests"

    def run(self, stop_after: int | None = None) -> Recorder:
        """Run to the end, or until an epoch is complete."""
        recorder = Recorder(stop_after)
        with submission_defaults({}, recorder):
            self.environment().execute("small")
        return recorder

    def crash(self) -> None:
        """Run until it dies."""
        try:
            self.run()
        except CrashError:
            return
        raise AssertionError("the job did not die")

    def in_background(self, errors: list[BaseException]) -> threading.Thread:
        """Run to the end on a thread; what the job fails with is put into a list."""

        def work() -> None:
            try:
                self.run()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def epochs(self) -> list[int]:
        """The epochs of the manifests that are there."""
        return sorted(int(path.stem) for path in self.manifests.glob("[0-9]*.json"))

    def go_back_to(self, epoch: int) -> None:
        """Take away everything that was written after the manifest of an epoch."""
        for number in self.epochs():
            if number > epoch:
                (self.manifests / f"{number:012}.json").unlink()
        (self.manifests / "newest").unlink()
        assert self.epochs()[-1] == epoch

    def environment(self) -> StreamExecutionEnvironment:
        settings = {
            "headrace.runtime": "local",
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.data-inline-threshold": "1b",
            "execution.checkpointing.num-retained": "100",
            "headrace.epoch.max-records": str(SPLITS * COUNT // EPOCHS // PARALLELISM),
            "headrace.epoch.target-duration": "60s",
        } | self.settings
        configuration = Configuration()
        for key, value in settings.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)
        source = NumbersInSplits(SPLITS, COUNT, self.pause)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        seen = numbers.uid("numbers").key_by(lambda number: number % KEYS, Types.LONG()).process(Seen(), RECORD)
        seen.uid("seen").sink_to(self.sink).name("files").uid("files")
        return env
