"""Settings of environments, and their jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, ExecutionConfig
from headrace.common.errors import ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)

if TYPE_CHECKING:
    from headrace.datastream.data_stream import DataStream
    from tests.datastream.conftest import Submissions


def test_configuration_is_copied_both_ways() -> None:
    given = Configuration().set_string("a", "1")
    env = StreamExecutionEnvironment.get_execution_environment(given)
    env.configure(Configuration().set_string("b", "2"))
    assert env.get_configuration().to_dict() == {"a": "1", "b": "2"}
    assert given.to_dict() == {"a": "1"}
    env.get_configuration().set_string("c", "3")
    assert not env.get_configuration().contains_key("c")


def test_configuration_has_to_be_one(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidTypeError, match="takes a Configuration"):
        StreamExecutionEnvironment.get_execution_environment({"a": 1})  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="configure takes a Configuration"):
        env.configure({"a": 1})  # type: ignore[arg-type]


def test_parallelism(env: StreamExecutionEnvironment) -> None:
    assert env.get_parallelism() >= 1
    assert env.get_max_parallelism() == 128
    assert env.set_parallelism(3).set_max_parallelism(64) is env
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 64)
    assert env.get_configuration().to_dict() == {"parallelism.default": "3", "pipeline.max-parallelism": "64"}
    assert env.get_config().set_parallelism(2).set_max_parallelism(32).get_parallelism() == 2
    assert env.from_sequence(1, 2).get_execution_config().get_max_parallelism() == 32


def test_parallelism_that_is_left_to_the_runtime(env: StreamExecutionEnvironment) -> None:
    config = env.get_config()
    env.set_parallelism(3).set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
    assert config.get_parallelism() == 3
    texts = env.from_collection([1]).map(str).set_parallelism(2)
    assert texts._operator().parallelism == 2
    assert texts.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)._operator().parallelism is None
    with pytest.raises(InvalidProgramError, match="from 1 to 32768, not -2"):
        texts.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
    config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    assert not env.get_configuration().contains_key("parallelism.default")
    with pytest.raises(ConfigurationError):
        env.set_parallelism(-3)


def test_execution_configs_are_compared_by_what_they_say() -> None:
    one, other = (StreamExecutionEnvironment.get_execution_environment().get_config() for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one.set_parallelism(3) != other
    assert one == other.set_parallelism(3)
    assert one != {"parallelism.default": "3"}


def test_wrong_parallelism_is_refused_and_forgotten(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ConfigurationError, match="an integer from 1 to 32768"):
        env.set_parallelism(0)
    env.set_max_parallelism(16)
    with pytest.raises(ConfigurationError, match="an integer from 1 to 32768"):
        env.set_max_parallelism(40000)
    assert env.get_configuration().to_dict() == {"pipeline.max-parallelism": "16"}


def test_job_parameters(env: StreamExecutionEnvironment) -> None:
    env.get_config().set_global_job_parameters({"threshold": 5, "name": "x"})
    assert env.get_config().get_global_job_parameters() == {"threshold": "5", "name": "x"}


def test_runtime_mode(env: StreamExecutionEnvironment) -> None:
    assert env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC) is env
    assert env.get_configuration().get("execution.runtime-mode") == "AUTOMATIC"
    with pytest.raises(InvalidTypeError, match="set_runtime_mode takes a RuntimeExecutionMode"):
        env.set_runtime_mode("BATCH")  # type: ignore[arg-type]


def test_checkpoints(env: StreamExecutionEnvironment) -> None:
    assert (env.get_checkpoint_interval(), env.get_checkpointing_mode()) == (-1, CheckpointingMode.EXACTLY_ONCE)
    assert not env.get_checkpoint_config().is_checkpointing_enabled()
    assert env.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE) is env
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_interval() == env.get_checkpoint_interval() == 5000
    assert config.get_checkpointing_mode() is env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.set_checkpoint_timeout(60_000).get_checkpoint_timeout() == 60_000
    assert config.is_checkpointing_enabled()
    assert config.is_externalized_checkpoints_enabled()
    retention = ExternalizedCheckpointRetention
    config.set_externalized_checkpoint_retention(retention.NO_EXTERNALIZED_CHECKPOINTS)
    assert not config.is_externalized_checkpoints_enabled()
    assert config.set_externalized_checkpoint_retention(
        retention.DELETE_ON_CANCELLATION
    ).is_externalized_checkpoints_enabled()
    env.get_configuration().validate()


def test_what_may_happen_to_checkpoints(env: StreamExecutionEnvironment) -> None:
    config, retention = env.get_checkpoint_config(), ExternalizedCheckpointRetention
    assert config.get_externalized_checkpoint_retention() is retention.RETAIN_ON_CANCELLATION
    for mode in retention:
        assert config.set_externalized_checkpoint_retention(mode).get_externalized_checkpoint_retention() is mode
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.set_min_pause_between_checkpoints(5).get_min_pause_between_checkpoints() == 5
    assert config.is_fail_on_checkpointing_errors()
    assert config.set_tolerable_checkpoint_failure_number(3).get_tolerable_checkpoint_failure_number() == 3
    assert not config.is_fail_on_checkpointing_errors()
    assert config.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0
    assert config.set_fail_on_checkpointing_errors(False).get_tolerable_checkpoint_failure_number() > 1_000_000
    with pytest.raises(ConfigurationError, match="an integer from 0 to"):
        config.set_tolerable_checkpoint_failure_number(-1)
    env.get_configuration().validate()


def test_checkpoint_storages_are_settings(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_storage() is None
    storage = FileSystemCheckpointStorage("file:///data", file_state_size_threshold=0)
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (0, 4096)
    assert config.set_checkpoint_storage(storage) is config
    assert env.get_configuration().to_dict() == {
        "execution.checkpointing.dir": "file:///data",
        "execution.checkpointing.data-inline-threshold": "0",
    }
    kept = config.get_checkpoint_storage()
    assert isinstance(kept, FileSystemCheckpointStorage)
    assert (kept.get_checkpoint_path(), kept.get_min_file_size_threshold()) == ("file:///data", 0)
    assert FileSystemCheckpointStorage("/data").get_min_file_size_threshold() == 20 << 10
    for given, kept_as in {
        "file://var/a/": "file://var/a",
        "/a//": "/a",
        "s3://b/": "s3://b",
        "/": "/",
        "file:///": "file:///",
    }.items():
        assert FileSystemCheckpointStorage(given).get_checkpoint_path() == kept_as
    in_memory = JobManagerCheckpointStorage(max_state_size=7)
    assert (in_memory.get_max_state_size(), in_memory.get_savepoint_path()) == (7, None)
    assert config.set_checkpoint_storage(in_memory).get_checkpoint_storage() is None
    assert not config.is_checkpointing_enabled()
    assert config.set_checkpoint_storage_dir("/other").is_checkpointing_enabled()
    assert env.get_configuration().get("execution.checkpointing.dir") == "/other"
    env.get_configuration().validate()
    with pytest.raises(InvalidTypeError, match="set_checkpoint_storage takes a CheckpointStorage"):
        config.set_checkpoint_storage("/data")  # type: ignore[arg-type]


def test_checkpoint_settings_are_checked(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="a time above zero, not 0 ms"):
        env.enable_checkpointing(0)
    with pytest.raises(InvalidTypeError, match="set_checkpointing_mode takes a CheckpointingMode"):
        env.enable_checkpointing(5, "EXACTLY_ONCE")  # type: ignore[arg-type]


def test_dependencies(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    first, second = tmp_path / "a b.jar", tmp_path / "b.jar"
    for jar in (first, second):
        jar.touch()
    env.add_python_file("/a.py")
    env.add_python_file("/b.zip")
    env.add_python_archive("/env.zip")
    env.add_python_archive("/data.zip", "data")
    env.set_python_executable("env.zip/bin/python")
    env.set_python_requirements("/requirements.txt", "/packages")
    jars = [first.as_uri(), f"{second}", f"{tmp_path}/b*.jar", "hdfs://prod/c.jar", "local:/d.jar"]
    env.add_jars(*jars)
    env.add_classpaths(first.as_uri(), f"{second}", "hdfs://prod/e.jar")
    everywhere = [first.as_uri().replace("file://", "local:"), f"local:{second}", "hdfs://prod/e.jar"]
    assert env.get_configuration().to_dict() == {
        "python.files": "/a.py,/b.zip",
        "python.archives": "/env.zip,/data.zip#data",
        "python.executable": "env.zip/bin/python",
        "python.requirements": "/requirements.txt#/packages",
        "spark.jars": ",".join(jars + everywhere),
    }
    env.get_configuration().validate()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{}/a.jar", "there is no file '{}/a.jar'"),
        ("file://{}/a.jar", "there is no file '{}/a.jar'"),
        ("{}/*.jar", r"there is no file '{}/\*.jar'"),
        ("{}", "there is no file '{}'"),
        (
            "file:///path/to/flink-sql-connector-kafka-1.15.0.jar",
            "it is Flink's, and headrace's connectors need no",
        ),
        ("{}/flink-json.jar", "it is Flink's"),
        ("hdfs://prod/flink-json.jar", "it is Flink's"),
    ],
)
def test_jars_of_flink_and_missing_ones_are_left_out(
    env: StreamExecutionEnvironment, tmp_path: Path, path: str, reason: str
) -> None:
    folder = tmp_path / "none"
    if path.endswith("flink-json.jar"):
        folder.mkdir()
        (folder / "flink-json.jar").touch()
    with pytest.warns(UserWarning, match=f"add_jars: .* has no effect: {reason.format(folder)}"):
        env.add_jars(path.format(folder))
    with pytest.warns(UserWarning, match="add_classpaths: .* has no effect"):
        env.add_classpaths(path.format(folder))
    assert env.get_configuration().to_dict() == {}


def test_paths_have_no_separators_in_them(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="a comma cannot be part of a path"):
        env.add_python_file("/a,b.py")
    with pytest.raises(InvalidProgramError, match="a # cannot be part of a path"):
        env.add_python_archive("/a#b.zip", "data")


def test_execute(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    env.set_parallelism(2)
    env.from_sequence(1, 3).print()
    result = env.execute("numbers")
    assert result.get_net_runtime() == 5
    (job,) = jobs
    assert job.name == "numbers"
    assert [node.name for node in job.graph] == ["Sequence Source", "Print to Std. Out"]
    assert job.configuration.to_dict() == {"parallelism.default": "2"}


def test_execute_async(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    jobs.finish_at_once = False
    env.from_sequence(1, 3).print()
    client = env.execute_async()
    assert client is jobs[0]
    assert jobs[0].name is None
    assert not client.get_job_execution_result().done()


def test_failure_of_a_job_is_raised(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    jobs.finish_at_once = False
    env.from_sequence(1, 3).print()
    error = ValueError("no")
    client = env.execute_async()
    client.get_job_execution_result().set_exception(error)
    jobs.submit = lambda *_: client  # type: ignore[method-assign,assignment]
    env.from_sequence(1, 3).print()
    with pytest.raises(ValueError, match="no"):
        jobs[0].get_job_execution_result().result()


def test_interrupted_execute_cancels_the_job(
    env: StreamExecutionEnvironment, jobs: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    jobs.finish_at_once = False
    env.from_sequence(1, 3).print()
    monkeypatch.setattr("headrace.common.completable_future.CompletableFuture.exception", interrupt)
    with pytest.raises(KeyboardInterrupt):
        env.execute()
    assert jobs[0].is_cancelled


def test_each_execute_is_a_job_of_its_own(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    numbers = env.from_sequence(1, 3)
    numbers.map(str).name("first").print()
    env.execute()
    numbers.filter(bool).name("second").print()
    env.from_collection(["unused"])
    env.execute()
    assert [[node.name for node in job.graph] for job in jobs] == [
        ["Sequence Source", "first", "Print to Std. Out"],
        ["Sequence Source", "second", "Print to Std. Out"],
    ]


def test_job_has_everything_that_was_built(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    env.from_sequence(1, 3).print()
    env.from_collection(["a"]).map(str)
    env.execute()
    assert len(jobs[0].graph) == 4


def test_empty_job_is_refused(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    env.from_sequence(1, 3)
    with pytest.raises(InvalidProgramError, match="nothing was built"):
        env.execute()
    env.from_sequence(1, 3).print()
    env.execute()
    with pytest.raises(InvalidProgramError, match="nothing was built"):
        env.execute()


def test_close_forgets_what_was_not_executed(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    env.from_sequence(1, 3).print()
    env.close()
    with pytest.raises(InvalidProgramError, match="nothing was built"):
        env.execute()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.AUTOMATIC, RuntimeExecutionMode.STREAMING])
def test_endless_sources(
    env: StreamExecutionEnvironment, endless: DataStream, jobs: Submissions, mode: RuntimeExecutionMode
) -> None:
    env.set_runtime_mode(mode)
    endless.print()
    env.execute()
    assert len(jobs) == 1


def test_batch_mode_needs_sources_that_end(env: StreamExecutionEnvironment, endless: DataStream) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    endless.print()
    for tell in (env.explain, env.execute):
        with pytest.raises(InvalidProgramError, match=r"source 'endless' .* is unbounded"):
            tell()


def test_a_plan_says_which_mode_it_is_in_and_why_where_that_was_left_open(
    env: StreamExecutionEnvironment, endless: DataStream
) -> None:
    def mode(stream: DataStream, asked: RuntimeExecutionMode) -> str:
        stream.print()
        text = env.set_runtime_mode(asked).explain().splitlines()[0].split(", ")[-1]
        env.close()
        return text

    assert mode(env.from_sequence(1, 2), RuntimeExecutionMode.BATCH) == "batch mode"
    assert mode(env.from_sequence(1, 2), RuntimeExecutionMode.STREAMING) == "streaming mode"
    assert mode(env.from_sequence(1, 2), RuntimeExecutionMode.AUTOMATIC) == (
        "batch mode (AUTOMATIC: all sources are bounded)"
    )
    assert mode(endless, RuntimeExecutionMode.AUTOMATIC) == "streaming mode (AUTOMATIC: source 'endless' is unbounded)"


WRONG_TYPES: list[tuple[str, str, Any, str]] = [
    *(("env", f"set_{name}parallelism", value, "int") for name in ("", "max_") for value in ("4", True, 1.5, None)),
    ("env", "set_default_local_parallelism", "4", "int"),
    ("env", "set_buffer_timeout", "10", "int"),
    ("env", "enable_changelog_state_backend", "true", "bool"),
    ("env", "set_default_savepoint_directory", 1, "str"),
    ("env", "add_python_file", 1, "str"),
    ("env", "set_python_requirements", 1, "str"),
    ("env", "add_python_archive", 1, "str"),
    ("env", "set_python_executable", 1, "str"),
    ("env", "add_jars", 1, "str"),
    ("config", "set_parallelism", "4", "int"),
    ("config", "set_auto_watermark_interval", True, "int"),
    ("config", "set_global_job_parameters", 1, "Mapping"),
    ("config", "set_use_snapshot_compression", 1, "bool"),
    ("checkpoints", "set_checkpoint_storage_dir", 1, "str"),
    ("checkpoints", "set_min_pause_between_checkpoints", "4", "int"),
    ("checkpoints", "set_max_concurrent_checkpoints", "4", "int"),
    ("checkpoints", "set_tolerable_checkpoint_failure_number", True, "int"),
    ("checkpoints", "set_fail_on_checkpointing_errors", 1, "bool"),
    ("checkpoints", "enable_unaligned_checkpoints", "true", "bool"),
    ("checkpoints", "set_force_unaligned_checkpoints", 1, "bool"),
    ("checkpoints", "set_aligned_checkpoint_timeout", 1, "Duration"),
]


@pytest.mark.parametrize(("part", "setter", "value", "kind"), WRONG_TYPES)
def test_setters_refuse_other_types_at_the_programs_line(part: str, setter: str, value: Any, kind: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    parts = {"env": env, "config": env.get_config(), "checkpoints": env.get_checkpoint_config()}
    with pytest.raises(InvalidTypeError, match=rf"{setter} takes an? {kind}, not .*\n  at {re.escape(__file__)}:"):
        getattr(parts[part], setter)(value)
    assert env.get_configuration() == Configuration()


@pytest.mark.parametrize(
    ("setter", "value", "kind"),
    [
        ("set_integer", "4", "int"),
        ("set_integer", True, "int"),
        ("set_boolean", 1, "bool"),
        ("set_float", "1", "float"),
    ],
)
def test_setters_of_configurations_refuse_other_types(setter: str, value: Any, kind: str) -> None:
    configuration = Configuration().set_float("whole", 1)
    with pytest.raises(InvalidTypeError, match=rf"{setter} takes an? {kind}, not .*\n  at {re.escape(__file__)}:"):
        getattr(configuration, setter)("key", value)
    assert configuration.key_set() == {"whole"}
