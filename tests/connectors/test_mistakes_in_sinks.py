"""What is said of sinks of one's own that are not as they should be: which sink, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from headrace.common import Configuration, Types
from headrace.common.batch import Batch
from headrace.common.errors import (
    ConfigurationError,
    InfrastructureError,
    InvalidProgramError,
    InvalidTypeError,
    UserFunctionError,
)
from headrace.connectors.sink import (
    Committer,
    CommitterContext,
    PreCommit,
    PreCommitted,
    Sink,
    SinkWriter,
    WriterContext,
)
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.base import DeliveryGuarantee, StatefulSinkWriter, SupportsWriterState


class Writer(SinkWriter):
    def write(self, batch: Batch) -> None:
        """Nothing is kept."""

    def prepare_commit(self) -> Sequence[Any]:
        return [1]


class Quiet(Committer):
    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        """Nothing is shown."""


class Mine(Sink[Any]):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        return Writer()

    def create_committer(self, context: CommitterContext) -> Committer | None:
        return Quiet()


class Keeping(StatefulSinkWriter[int]):
    def write(self, batch: Batch) -> None:
        """Nothing is kept."""

    def prepare_commit(self) -> Sequence[Any]:
        return []

    def snapshot_state(self, epoch: int) -> Sequence[int]:
        return []


class MineWithState(Mine, SupportsWriterState[int]):
    @property
    def writer_state_type(self) -> Any:
        return Types.INT()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return Keeping()

    def restore_writer(self, context: WriterContext, recovered_state: Sequence[int]) -> StatefulSinkWriter[int]:
        return Keeping()


def run(sink: Sink[Any]) -> None:
    settings = {"headrace.runtime": "local", "parallelism.default": "1", "restart-strategy.type": "none"}
    start(StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)), sink)


def start(env: StreamExecutionEnvironment, sink: Sink[Any]) -> None:
    env.from_collection([1, 2], Types.INT()).sink_to(sink).name("mine").uid("mine")
    env.execute()


def having(base: type, **members: Any) -> Any:
    return type("Changed", (base,), members)()


def failing(error: Exception) -> Any:
    def method(*_: Any) -> Any:
        raise error

    return method


def test_sinks_without_mistakes_run() -> None:
    run(Mine())
    run(MineWithState())


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (having(Mine, takes_watermarks=lambda self: False), "Changed.takes_watermarks is a method: write @property"),
        (having(Mine, is_durable=lambda self: True), "Changed.is_durable is a method"),
        (having(MineWithState, writer_state_type=lambda self: Types.INT()), "Changed.writer_state_type is a method"),
        (
            having(Mine, delivery_guarantee="AT_LEAST_ONCE"),
            "Changed.delivery_guarantee is 'AT_LEAST_ONCE': have it be a DeliveryGuarantee",
        ),
        (having(Mine, dead_letter="bad"), "Changed.dead_letter is 'bad': have it be an OutputTag"),
    ],
)
def test_properties_are_looked_at_when_the_program_is_built(sink: Sink[Any], said: str) -> None:
    with pytest.raises(InvalidTypeError, match=rf"{said}.*\n  at {__file__}"):
        run(sink)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            having(Mine, create_writer=lambda self, context: None),
            r"Changed.create_writer\(\) gave None: return a SinkWr",
        ),
        (having(Mine, create_writer=lambda self, context: Keeping()), "Changed does not extend SupportsWriterState"),
        (having(MineWithState, create_writer=lambda self, context: Writer()), "a Writer, is no StatefulSinkWriter"),
    ],
)
def test_writers_are_looked_at_when_they_are_made(sink: Sink[Any], said: str) -> None:
    with pytest.raises(UserFunctionError, match=rf"'mine' \(uid mine(.|\n)*{said}(.|\n)*defined at {__file__}"):
        run(sink)


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("prepare_commit", None, "return a list of JSON values, \\[\\] for none"),
        ("prepare_commit", "part-1", "return a list of JSON values"),
        ("prepare_commit", {"name": "part-1"}, "return a list of JSON values"),
        ("snapshot_state", None, "return a list of elements of the state"),
        ("snapshot_state", "abc", "return a list of elements of the state"),
        ("wake_up_time", "soon", "return milliseconds, or None"),
    ],
)
def test_what_writers_give_is_looked_at(method: str, given: Any, said: str) -> None:
    writer = having(Keeping, **{method: lambda *_: given})
    with pytest.raises(UserFunctionError, match=rf"Changed.{method}\(\) gave {given!r}: {said}"):
        run(having(MineWithState, create_writer=lambda self, context: writer))


@pytest.mark.parametrize("method", ["create_committer", "check_output"])
@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (RuntimeError("no database"), UserFunctionError, f"failed\n  RuntimeError: no database\n  at {__file__}"),
        (ConnectionError("away"), InfrastructureError, "failed: away"),
        (ConfigurationError("no such user"), ConfigurationError, "failed: no such user"),
    ],
)
def test_it_is_told_of_which_sink_the_driver_s_half_failed(
    method: str, error: Exception, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=rf"of sink 'mine' \(uid mine\) {said}"):
        run(having(Mine, **{method: failing(error)}))


class Passing(PreCommit):
    def prepare(
        self, in_progress: Any, committables: Sequence[Any], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        return PreCommitted(tuple(committables), None)

    def due(self, in_progress: Any) -> int | None:
        return None


def prepares(*given: Any) -> dict[str, Any]:
    return {"prepare": lambda *_, is_last: given[0] if len(given) == 1 else PreCommitted(*given)}


@pytest.mark.parametrize(
    ("members", "kind", "said"),
    [
        (prepares(None), InvalidProgramError, r"gave None: return a PreCommitted\(ready, in_progress\)"),
        (prepares(None, None), InvalidProgramError, "gave None: return a list of what is ready"),
        (prepares((), {1, 2}), InvalidProgramError, r"holds back \{1, 2\} in the last epoch of the job, so it would"),
        (prepares(({1},), None), InvalidProgramError, r"\{1\} cannot be stored in a checkpoint"),
        ({"prepare": lambda *_, is_last: {}["x"]}, UserFunctionError, f"\n  KeyError: 'x'\n  at {__file__}"),
    ],
)
def test_what_pre_commits_give_is_looked_at(members: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=rf"pre-commit of sink 'mine' \(uid mine\) failed(.|\n)*{said}"):
        run(having(Mine, pre_commit=having(Passing, **members)))


def test_when_a_pre_commit_is_due_is_a_time() -> None:
    held = {"prepare": lambda *_, is_last: PreCommitted((), None if is_last else 1), "due": lambda *_: "soon"}
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": "1",
        "headrace.epoch.max-records": "1",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_sequence(1, 9).sink_to(having(Mine, pre_commit=having(Passing, **held))).name("mine").uid("mine")
    with pytest.raises(InvalidProgramError, match=r"'mine' .*due\(\) gave 'soon': return milliseconds, or None"):
        env.execute()


class Locked(Mine):
    tries: ClassVar[list[str]] = []

    def create_committer(self, context: CommitterContext) -> Committer | None:
        self.tries.append(context.operator_id)
        raise InfrastructureError("/out cannot be listed") from PermissionError(13, "Permission denied")


def test_what_may_not_be_accessed_at_the_start_ends_the_job() -> None:
    settings = {"headrace.runtime": "local", "restart-strategy.type": "fixed-delay"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    Locked.tries.clear()
    with pytest.raises(InfrastructureError, match=r"sink 'mine' \(uid mine\) failed: /out cannot be listed"):
        start(env, Locked())
    assert Locked.tries == ["mine"]


def test_an_error_of_a_property_is_told_as_it_is() -> None:
    with pytest.raises(AttributeError, match="_guarantee"):
        run(having(Mine, delivery_guarantee=property(lambda self: self._guarantee)))


def test_what_is_no_committer_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match=r"sink 'mine' .*create_committer\(\) gave <.*>: return a Committer"):
        run(having(Mine, create_committer=lambda self, context: Writer()))


class AtLeastOnce(Sink[Any]):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        return Writer()

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.AT_LEAST_ONCE


def test_a_sink_without_a_committer_has_nothing_to_commit() -> None:
    with pytest.raises(InvalidProgramError, match=rf"sink 'mine' gave .*create_committer\(\).*\n  at {__file__}"):
        run(AtLeastOnce())
