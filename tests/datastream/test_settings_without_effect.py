"""What programs set for Flink and what has nothing to act on here: kept, given back, and told."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.running import submission_defaults
from headrace.client.submission import effective_configuration
from headrace.common import Configuration, Duration
from headrace.common.errors import ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.common.flink_options import FLINK_OPTIONS, REFUSED_OPTIONS, reason_of_family
from headrace.common.options import CHECKPOINT_DIR, DEPRECATED, OPTIONS
from headrace.common.other_names import WITHOUT_EFFECT
from headrace.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemorySize,
    PredefinedOptions,
    SlotSharingGroup,
)
from headrace.datastream.checkpoint_config import CheckpointConfig
from headrace.datastream.dependencies import ConfiguredEnvironment
from headrace.datastream.execution_config import ExecutionConfig

if TYPE_CHECKING:
    from headrace.datastream import StreamExecutionEnvironment

FLINK_KEYS = (Path(__file__).parent / "flink_option_keys.txt").read_text().split()
"""The options of programs, their state and their checkpoints in Flink 2.3, with their older keys; those of PyFlink."""

# The part of the environment, the setter with a value that differs from the default, the getter, default and result.
SETTINGS: list[tuple[str, str, Any, str, Any, Any]] = [
    ("env", "set_buffer_timeout", 12_000, "get_buffer_timeout", 100, 12_000),
    ("env", "set_buffer_timeout", -1, "get_buffer_timeout", 100, -1),
    ("env", "disable_operator_chaining", None, "is_chaining_enabled", True, False),
    ("env", "enable_changelog_state_backend", True, "is_changelog_state_backend_enabled", None, True),
    ("checkpoints", "set_max_concurrent_checkpoints", 2, "get_max_concurrent_checkpoints", 1, 2),
    ("checkpoints", "enable_unaligned_checkpoints", None, "is_unaligned_checkpoints_enabled", False, True),
    ("checkpoints", "set_force_unaligned_checkpoints", None, "is_force_unaligned_checkpoints", False, True),
    ("checkpoints", "set_aligned_checkpoint_timeout", Duration.of_seconds(1), "get_aligned_checkpoint_timeout",
     Duration.of_millis(0), Duration.of_seconds(1)),
    ("checkpoints", "set_alignment_timeout", Duration.of_millis(7), "get_alignment_timeout",
     Duration.of_millis(0), Duration.of_millis(7)),
    ("config", "set_auto_watermark_interval", 100, "get_auto_watermark_interval", 200, 100),
    ("config", "set_latency_tracking_interval", 100, "get_latency_tracking_interval", 0, 100),
    ("config", "set_task_cancellation_interval", 5, "get_task_cancellation_interval", 30_000, 5),
    ("config", "set_task_cancellation_timeout", 5, "get_task_cancellation_timeout", 180_000, 5),
    ("config", "disable_closure_cleaner", None, "is_closure_cleaner_enabled", True, False),
    ("config", "enable_object_reuse", None, "is_object_reuse_enabled", False, True),
    ("config", "enable_force_kryo", None, "is_force_kryo_enabled", False, True),
    ("config", "enable_force_avro", None, "is_force_avro_enabled", False, True),
    ("config", "disable_generic_types", None, "has_generic_types_disabled", False, True),
    ("config", "set_use_snapshot_compression", True, "is_use_snapshot_compression", False, True),
]  # fmt: skip


def part(env: StreamExecutionEnvironment, name: str) -> Any:
    return {"env": env, "checkpoints": env.get_checkpoint_config(), "config": env.get_config()}[name]


@pytest.mark.parametrize(("name", "setter", "value", "getter", "default", "result"), SETTINGS)
def test_a_setting_is_kept_with_a_warning(
    env: StreamExecutionEnvironment, name: str, setter: str, value: Any, getter: str, default: Any, result: Any
) -> None:
    assert getattr(part(env, name), getter)() == default
    arguments = () if value is None else (value,)
    with pytest.warns(UserWarning, match=r"^[a-z.-]+ has no effect: [a-z]") as caught:
        returned = getattr(part(env, name), setter)(*arguments)
    assert type(returned) is type(part(env, name))
    assert [str(warning.filename) for warning in caught] == [__file__]
    assert getattr(part(env, name), getter)() == result
    env.get_configuration().validate()


OPPOSITES = [
    ("config", "enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled"),
    ("config", "disable_object_reuse", "enable_object_reuse", "is_object_reuse_enabled"),
    ("config", "disable_force_kryo", "enable_force_kryo", "is_force_kryo_enabled"),
    ("config", "disable_force_avro", "enable_force_avro", "is_force_avro_enabled"),
    ("config", "enable_generic_types", "disable_generic_types", "has_generic_types_disabled"),
    (
        "checkpoints",
        "disable_unaligned_checkpoints",
        "enable_unaligned_checkpoints",
        "is_unaligned_checkpoints_enabled",
    ),
]


@pytest.mark.parametrize(("name", "as_it_is", "otherwise", "getter"), OPPOSITES)
def test_what_holds_anyway_is_set_without_a_warning(
    env: StreamExecutionEnvironment, name: str, as_it_is: str, otherwise: str, getter: str
) -> None:
    default = getattr(part(env, name), getter)()
    with pytest.warns(UserWarning, match="has no effect"):
        getattr(part(env, name), otherwise)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(part(env, name), as_it_is)()
    assert getattr(part(env, name), getter)() == default


@pytest.mark.parametrize("method", WITHOUT_EFFECT["DataStream"])
def test_settings_of_streams_only_warn(env: StreamExecutionEnvironment, method: str) -> None:
    stream = env.from_sequence(1, 2)
    sink = stream.print()
    for target in (stream, sink) if method in WITHOUT_EFFECT["DataStreamSink"] else (stream,):
        with pytest.warns(UserWarning, match=rf"{method}\(\) has no effect: \w") as caught:
            assert getattr(target, method)("x") is target
        assert caught[0].filename == __file__


def test_every_setter_is_in_the_table() -> None:
    tried = {setter for _, setter, *_ in SETTINGS} | {method for _, *methods in OPPOSITES for method in methods}
    with_effect = {
        "set_parallelism", "set_max_parallelism", "set_global_job_parameters", "enable_auto_generated_uids",
        "disable_auto_generated_uids", "set_checkpoint_interval", "set_checkpoint_timeout", "set_checkpointing_mode",
        "set_checkpoint_storage", "set_checkpoint_storage_dir", "set_default_local_parallelism",
        "set_externalized_checkpoint_retention", "set_min_pause_between_checkpoints",
        "set_tolerable_checkpoint_failure_number", "set_fail_on_checkpointing_errors",
        "set_default_savepoint_directory", "set_python_requirements", "set_python_executable",
    }  # fmt: skip
    setters = {
        name
        for cls in (ExecutionConfig, CheckpointConfig, ConfiguredEnvironment)
        for name in dir(cls)
        if name.startswith(("set_", "enable_", "disable_"))
    }
    assert setters - tried == with_effect


def test_keys_of_a_configuration_say_so_as_well() -> None:
    with pytest.warns(UserWarning, match="metrics.latency.interval has no effect") as caught:
        configuration = Configuration().set_string("metrics.latency.interval", "5 s")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Configuration(configuration).set_string("pipeline.operator-chaining", "true").validate()
    with pytest.warns(UserWarning, match="pipeline.operator-chaining has no effect"):
        Configuration().set("pipeline.operator-chaining", "false")
    with pytest.raises(ConfigurationError, match="interval = 'soon': expected a duration"):
        Configuration().set_string("metrics.latency.interval", "soon").validate()


def test_a_key_that_is_older_gives_way(env: StreamExecutionEnvironment) -> None:
    with pytest.warns(UserWarning, match="has no effect"):
        env.configure(Configuration().set_string("pipeline.operator-chaining", "false"))
    assert not env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()


def test_wrong_values_are_refused_and_forgotten(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ConfigurationError, match="an integer from 1 to"):
        env.get_checkpoint_config().set_max_concurrent_checkpoints(0)
    with pytest.raises(InvalidTypeError, match="takes an ExternalizedCheckpointRetention"):
        env.get_checkpoint_config().set_externalized_checkpoint_retention("RETAIN")  # type: ignore[arg-type]
    assert env.get_configuration() == Configuration()


def test_every_option_has_a_reason_and_a_default_of_its_kind() -> None:
    for key, option in FLINK_OPTIONS.items():
        assert option.reason[0].islower() or option.reason.startswith("Spark "), key
        assert option.default is None or option.parse(str(option.default).lower()) == option.default


@pytest.mark.parametrize("key", FLINK_KEYS)
def test_every_option_of_flink_works_or_warns_or_is_refused(key: str) -> None:
    works, is_without_effect = key in OPTIONS or key in DEPRECATED, key in FLINK_OPTIONS or bool(reason_of_family(key))
    assert [works, is_without_effect, key in REFUSED_OPTIONS].count(True) == 1


def test_options_of_pyflink_without_effect_are_a_warning_at_the_programs_line() -> None:
    with pytest.warns(UserWarning, match=r"python\.fn-execution\.bundle\.size has no effect: .* batches") as caught:
        Configuration().set_integer("python.fn-execution.bundle.size", 500).validate()
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"taskmanager\.memory\.process\.size has no effect: Spark"):
        Configuration().set_string("taskmanager.memory.process.size", "4g").validate()
    with pytest.warns(UserWarning, match=r"state\.backend\.rocksdb\.writebuffer\.size has no effect: .* no write"):
        Configuration().set_string("state.backend.rocksdb.writebuffer.size", "8 mb").validate()
    with pytest.raises(ConfigurationError, match=r"python\.fn-execution\.bundle\.size = 'many': expected an integer"):
        Configuration().set_string("python.fn-execution.bundle.size", "many").validate()


def test_options_that_would_be_missed_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"pipeline\.jars is an option of Flink, .*use add_jars"):
        Configuration().set_string("pipeline.jars", "file:///kafka.jar").validate()
    with pytest.raises(ConfigurationError, match=r"python\.file is not an option .* python\.files"):
        Configuration().set_string("python.file", "a.py").validate()


def test_older_keys_give_way_to_what_is_set_later(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string("state.checkpoints.dir", "/old"))
    config = env.get_checkpoint_config()
    assert config.is_checkpointing_enabled()
    with submission_defaults({"state.checkpoints.dir": "/command-line"}):
        config.set_checkpoint_storage_dir("/program")
        assert effective_configuration(env.get_configuration()).get(CHECKPOINT_DIR) == "/command-line"
    config.set_checkpoint_storage(JobManagerCheckpointStorage())
    assert not config.is_checkpointing_enabled()


def test_local_parallelism(env: StreamExecutionEnvironment) -> None:
    assert env.get_default_local_parallelism() >= 1
    with pytest.warns(UserWarning, match=r"use set_parallelism\(\.\.\.\)") as caught:
        env.set_default_local_parallelism(8)
    assert caught[0].filename == __file__
    assert env.get_default_local_parallelism() == 8


def test_lists_of_java_classes_are_empty(env: StreamExecutionEnvironment) -> None:
    config = env.get_config()
    assert config.get_default_kryo_serializer_classes() == {}
    assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []


def test_operators_without_uid_can_be_refused(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string("headrace.runtime", "local"))
    config = env.get_config()
    assert config.has_auto_generated_uids_enabled()
    assert not config.disable_auto_generated_uids().has_auto_generated_uids_enabled()
    numbers = env.from_sequence(1, 2).uid("numbers")
    numbers.map(abs).print().uid("printed")
    with pytest.raises(InvalidProgramError, match=r"without uid\(\): 'Map' \(.*\); pipeline\.auto-generate-uids is"):
        env.explain()
    env.close()
    assert env.from_sequence(1, 2).uid("numbers").map(abs).uid("absolute").execute_and_collect(limit=5) == [1, 2]
    assert config.enable_auto_generated_uids().has_auto_generated_uids_enabled()


def test_a_uid_is_not_asked_for_where_no_program_can_give_one(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string("headrace.runtime", "local"))
    env.get_config().disable_auto_generated_uids()
    numbers = env.from_collection([3, 1, 2]).uid("numbers")
    ordered = numbers.full_window_partition().sort_partition(0).uid("ordered")
    assert sorted(ordered.execute_and_collect(limit=5)) == [1, 2, 3]
    together = numbers.union(env.from_collection(["a"]).uid("texts"))
    assert sorted(together.execute_and_collect(limit=5), key=str) == [1, 2, 3, "a"]


def test_slot_sharing_groups_are_declarations(env: StreamExecutionEnvironment) -> None:
    heap = MemorySize.of_mebi_bytes(100)
    builder = SlotSharingGroup.builder("heavy").set_cpu_cores(1.5).set_task_heap_memory(heap)
    group = builder.set_task_off_heap_memory_mb(200).set_managed_memory_mb(300).set_external_resource("gpu", 1).build()
    assert (group.get_name(), group.get_cpu_cores(), group.get_task_heap_memory()) == ("heavy", 1.5, heap)
    assert group.get_task_off_heap_memory() == MemorySize(bytes_size=200 << 20)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(300)
    assert group.get_external_resources() == {"gpu": 1}
    same = builder.set_task_heap_memory_mb(100).set_external_resource("gpu", 1).build()
    assert (group == same, hash(group) == hash(same)) == (True, True)
    assert SlotSharingGroup.builder("heavy").build().get_managed_memory() is None
    with pytest.warns(UserWarning, match="the slot sharing group 'heavy' has no effect: Spark places the tasks"):
        assert env.register_slot_sharing_group(group) is env
    with pytest.raises(InvalidTypeError, match="takes a SlotSharingGroup"):
        env.register_slot_sharing_group("heavy")  # type: ignore[arg-type]


def test_what_a_slot_sharing_group_does_not_say_is_zero() -> None:
    group = SlotSharingGroup.builder("light").set_cpu_cores(1.0).set_task_heap_memory_mb(1).build()
    assert group.get_managed_memory() == group.get_task_off_heap_memory() == MemorySize(0)


@pytest.mark.parametrize(
    "builder",
    [
        SlotSharingGroup.builder("heavy").set_cpu_cores(1.0),
        SlotSharingGroup.builder("heavy").set_task_heap_memory_mb(10),
        SlotSharingGroup.builder("heavy").set_managed_memory_mb(10),
        SlotSharingGroup.builder("heavy").set_external_resource("gpu", 1),
        SlotSharingGroup.builder("heavy").set_cpu_cores(0).set_task_heap_memory_mb(10),
        SlotSharingGroup.builder("heavy").set_cpu_cores(1.0).set_task_heap_memory(MemorySize(0)),
    ],
)
def test_a_slot_sharing_group_that_says_too_little_is_refused(builder: SlotSharingGroup.Builder) -> None:
    with pytest.raises(InvalidProgramError, match="'heavy' needs set_cpu_cores and set_task_heap_memory"):
        builder.build()


@pytest.mark.parametrize(
    ("given", "folder"), [("file:///tmp/a%20b/", "/tmp/a b"), ("file://var/a/", "/a"), ("/a/", "/a")]
)
def test_folders_of_rocksdb_are_paths_of_this_machine(given: str, folder: str) -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(given)
    assert backend.get_db_storage_paths() == [folder]
    for refused, reason in {"a/b": "takes absolute paths", "s3://b/a": "is not on this machine"}.items():
        with pytest.raises(InvalidProgramError, match=reason):
            backend.set_db_storage_paths(refused)


def test_state_backends_are_declarations(env: StreamExecutionEnvironment) -> None:
    assert env.get_state_backend() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.set_state_backend(HashMapStateBackend()) is env
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    assert (backend.get_db_storage_paths(), backend.get_options()) == ([], None)
    with pytest.warns(UserWarning, match=r"\('/b',\) have no effect") as caught:
        backend.set_db_storage_paths("/a", "/b")
    assert caught[0].filename == __file__
    backend.set_predefined_options(PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM)
    with pytest.warns(UserWarning, match="org.example.Factory has no effect: it is a Java class"):
        backend.set_options("org.example.Factory")
    with pytest.warns(UserWarning, match="the number of transfer threads has no effect"):
        backend.set_number_of_transfer_threads(2)
    assert backend.is_incremental_checkpoints_enabled()
    assert not EmbeddedRocksDBStateBackend().is_incremental_checkpoints_enabled()
    assert (backend.get_db_storage_paths(), backend.get_options()) == (["/a", "/b"], "org.example.Factory")
    assert backend.get_predefined_options() is PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM
    assert backend.get_number_of_transfer_threads() == 2
    assert env.set_state_backend(backend) is env
    assert env.get_state_backend() is backend
    assert env.get_configuration().to_dict() == {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": "/a",
        "state.backend.rocksdb.predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
    }
    with pytest.raises(InvalidTypeError, match="set_state_backend takes a StateBackend"):
        env.set_state_backend("rocksdb")  # type: ignore[arg-type]


def test_memory_sizes() -> None:
    size = MemorySize.of_mebi_bytes(3 << 20)
    assert (size.get_bytes(), size.get_kibi_bytes(), size.get_mebi_bytes()) == (3 << 40, 3 << 30, 3 << 20)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (3 << 10, 3)
    assert list(map(str, (size, MemorySize(1 << 20), MemorySize(1025), MemorySize(0)))) == [
        "3 tb", "1 mb", "1025 bytes", "0 bytes",
    ]  # fmt: skip
    assert MemorySize(1) < MemorySize(2) <= MemorySize(2)
    assert len({MemorySize(1024), MemorySize(bytes_size=1024)}) == 1
    with pytest.raises(InvalidProgramError, match="zero bytes or more, not -1"):
        MemorySize(-1)
