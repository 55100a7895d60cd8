"""Configuration keys, values and options."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest

from headrace.common import config_options, options, scheduler_options
from headrace.common.config_options import ConfigOption, ConfigOptions
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.options import OPTIONS, RuntimeExecutionMode
from headrace.common.time import Duration, Time


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 s", 10_000), ("500ms", 500), ("1min", 60_000), ("2 h", 7_200_000), ("3 d", 259_200_000), ("42", 42),
        (" 7 seconds ", 7_000), ("1 minute", 60_000), ("2 m", 120_000), ("5 milli", 5), ("3000 µs", 3),
        ("1000000ns", 1), ("0 s", 0), ("60 SECONDS", 60_000),
    ],
)  # fmt: skip
def test_durations(text: str, millis: int) -> None:
    assert config_options.duration(text) == millis


@pytest.mark.parametrize("text", ["", "s", "1.5 s", "-1 s", "10 parsecs", "1 h 30 min", "10 us"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="a duration"):
        config_options.duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 mb", 64 << 20), ("20kb", 20 << 10), ("1g", 1 << 30), ("2 TB", 2 << 40), ("100", 100), ("7 bytes", 7)],
)
def test_memory_sizes(text: str, size: int) -> None:
    assert config_options.memory_size(text) == size


@pytest.mark.parametrize("text", ["", "mb", "-1 mb", "1.5 gb", "3 pb"])
def test_what_is_no_memory_size(text: str) -> None:
    with pytest.raises(ValueError, match="a memory size"):
        config_options.memory_size(text)


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (options.PARALLELISM, "4", 4),
        (options.MAX_PARALLELISM, "256", 256),
        (options.PIPELINE_NAME, "fraud", "fraud"),
        (options.RUNTIME_MODE, "batch", RuntimeExecutionMode.BATCH),
        (options.CHECKPOINT_INTERVAL, "10 s", 10_000),
        (options.CHECKPOINT_INLINE_THRESHOLD, "1 mb", 1 << 20),
        (options.CHECKPOINT_MODE, "at-least-once", "AT_LEAST_ONCE"),
        (options.STATE_BACKEND, "dictionary", "dictionary"),
        (scheduler_options.RESTART_STRATEGY, "exponential_delay", "exponential-delay"),
        (scheduler_options.EXPONENTIAL_MULTIPLIER, "2", 2.0),
        (options.FRESH_FUNCTIONS, "TRUE", True),
    ],
)
def test_options_are_read(option: ConfigOption[Any], text: str, value: Any) -> None:
    config = Configuration().set_string(option.key, text)
    config.validate()
    assert config.get(option) == value


@pytest.mark.parametrize(
    ("option", "default"),
    [
        (options.PARALLELISM, None),
        (options.MAX_PARALLELISM, 128),
        (options.RUNTIME_MODE, RuntimeExecutionMode.STREAMING),
        (options.CHECKPOINT_DIR, None),
        (options.CHECKPOINT_INTERVAL, None),
        (options.CHECKPOINTS_RETAINED, 1),
        (options.CHECKPOINT_INLINE_THRESHOLD, 20_480),
        (options.CHECKPOINT_TIMEOUT, 600_000),
        (options.CHECKPOINT_MODE, "EXACTLY_ONCE"),
        (options.STATE_BACKEND, "hashmap"),
        (options.EPOCH_MAX_RECORDS, 20_000_000),
        (options.EPOCH_MAX_BYTES, 268_435_456),
        (options.EPOCH_TARGET_DURATION, 1_000),
        (options.RUNTIME, "spark"),
        (options.FRESH_FUNCTIONS, False),
        (options.SOURCE_POLL_INTERVAL, 100),
    ],
)
def test_defaults(option: ConfigOption[Any], default: Any) -> None:
    assert Configuration().get(option) == default


def test_a_default_of_the_caller_wins_over_that_of_the_option() -> None:
    assert Configuration().get(options.CHECKPOINTS_RETAINED, 5) == 5


def test_every_option_is_registered_and_described() -> None:
    assert len(OPTIONS) >= 25
    for key, option in OPTIONS.items():
        assert option.key == key
        # Other keys of these are PyFlink's own, or of Flink's processes.
        others = (
            "$internal.",
            "high-availability.",
            "historyserver.",
            "jobstore.",
            "python.",
            "scheduler-mode",
            "env.log.",
            "jobmanager.",
            "web.",
        )
        assert key.startswith((*options.OWN_NAMESPACES, *others, "security.ssl.rest."))
        assert option.description.endswith(".")


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (options.PARALLELISM, "many", "parallelism.default = 'many': expected an integer from 1 to 32768"),
        (options.PARALLELISM, "0", "expected an integer from 1"),
        (options.CHECKPOINT_INTERVAL, "soon", "expected a duration such as '10 s'"),
        (options.CHECKPOINT_INTERVAL, "0 s", "expected a duration above zero"),
        (options.EPOCH_MAX_BYTES, "big", "expected a memory size"),
        (options.FRESH_FUNCTIONS, "yes", "expected true or false"),
        (options.RUNTIME_MODE, "both", "expected one of STREAMING, BATCH, AUTOMATIC"),
        (scheduler_options.EXPONENTIAL_MULTIPLIER, "1", "expected a number above 1"),
        (scheduler_options.EXPONENTIAL_MULTIPLIER, "fast", "expected a number"),
        (scheduler_options.EXPONENTIAL_JITTER, "2", "expected a number from 0 to 1"),
        (scheduler_options.EXPONENTIAL_JITTER, "some", "expected a number from 0 to 1"),
    ],
)
def test_a_wrong_value_is_told_with_what_would_be_right(option: ConfigOption[Any], text: str, message: str) -> None:
    config = Configuration().set_string(option.key, text)
    with pytest.raises(ConfigurationError, match=message):
        config.get(option)
    with pytest.raises(ConfigurationError, match=message):
        config.validate()


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("execution.checkpointing.intervall", "did you mean execution.checkpointing.interval"),
        ("headrace.epoch.max-record", "did you mean headrace.epoch.max-records"),
        ("paralelism.default", "did you mean parallelism.default"),
        ("hedrace.runtime", "did you mean headrace.runtime"),
        ("shop.parallelism", None),
        ("parallelism.defualt", "did you mean parallelism.default"),
        ("state.x", "known are parallelism.default"),
        ("spark.sql.shuffle.partitions", None),
        ("python.requirement", "did you mean python.requirements"),
    ],
)
def test_unknown_keys(key: str, hint: str | None) -> None:
    config = Configuration().set_string(key, "1")
    if hint is None:
        config.validate()
    else:
        with pytest.raises(ConfigurationError, match=hint):
            config.validate()


def test_all_mistakes_are_told_at_once() -> None:
    config = Configuration.from_dict({"headrace.runtime": "flink", "state.backends": "hashmap"})
    with pytest.raises(ConfigurationError, match=r"(?s)headrace.runtime = 'flink'.*state.backends is not an option"):
        config.validate()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (True, "true"),
        (5, "5"),
        (0.5, "0.5"),
        (Duration.of_seconds(3), "3000 ms"),
        (Time.minutes(1), "60000 ms"),
        (datetime.timedelta(seconds=1), "1000 ms"),
        (RuntimeExecutionMode.BATCH, "BATCH"),
        (["a", "b"], "a;b"),
    ],
)
def test_values_are_kept_as_text(value: Any, text: str) -> None:
    assert Configuration().set("key", value).to_dict() == {"key": text}


@pytest.mark.parametrize(("key", "value"), [("key", None), ("key", object()), ("", "a"), (5, "a")])
def test_what_cannot_be_set(key: Any, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        Configuration().set(key, value)


def test_typed_getters_and_setters() -> None:
    config = Configuration()
    config.set_string("s", "x").set_integer("i", 2**40).set_boolean("b", True).set_float("f", 1)
    config.set_bytearray("y", bytearray(b"\x00\xff"))
    assert config.get_string("s", "") == "x"
    assert config.get_integer("i", 0) == 2**40
    assert config.get_boolean("b", False) is True
    assert config.get_float("f", 0.0) == 1.0
    assert config.get_bytearray("y", bytearray()) == b"\x00\xff"
    assert config.get("s") == "x"
    missing = [config.get_string("?", "d"), config.get_integer("?", 1), config.get_boolean("?", True)]
    assert missing == ["d", 1, True]
    assert config.get_float("?", 2.5) == 2.5
    with pytest.raises(ConfigurationError, match="s = 'x': expected an integer"):
        config.get_integer("s", 0)
    with pytest.raises(ConfigurationError, match="bytes in base 64"):
        Configuration().set_string("y", "!").get_bytearray("y", bytearray())


def test_as_a_collection() -> None:
    config = Configuration.from_dict({"a": "1"})
    copied = Configuration(config).set_string("b", "2")
    assert config.key_set() == {"a"}
    assert copied.contains_key("b")
    assert not config.contains_key("b")
    config.add_all(copied, "x.")
    config.add_all(copied)
    assert config.to_dict() == {"a": "1", "x.a": "1", "x.b": "2", "b": "2"}
    target = {"z": "0"}
    copied.add_all_to_dict(target)
    assert target == {"z": "0", "a": "1", "b": "2"}
    assert copied.remove_config("a")
    assert not copied.remove_config("a")
    assert copied == Configuration.from_dict({"b": "2"})
    assert hash(copied) == hash(Configuration.from_dict({"b": "2"}))
    assert "b" in str(copied)


def test_what_is_meant_for_spark() -> None:
    config = Configuration.from_dict({"spark.executor.memory": "2g", "pipeline.name": "x"})
    assert config.spark_options() == {"spark.executor.memory": "2g"}


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (ConfigOptions.key("k").boolean_type().default_value(False), "true", True),
        (ConfigOptions.key("k").int_type().default_value(1), "5", 5),
        (ConfigOptions.key("k").long_type().no_default_value(), "5000000000", 5_000_000_000),
        (ConfigOptions.key("k").float_type().no_default_value(), "1.5", 1.5),
        (ConfigOptions.key("k").double_type().no_default_value(), "1.5", 1.5),
        (ConfigOptions.key("k").string_type().default_value("d"), "s", "s"),
        (ConfigOptions.key("k").duration_type().no_default_value(), "1 s", 1_000),
        (ConfigOptions.key("k").memory_type().no_default_value(), "1 kb", 1_024),
    ],
)
def test_options_can_be_defined(option: ConfigOption[Any], text: str, value: Any) -> None:
    assert Configuration().get(option) == option.default
    assert Configuration().set(option, text).get(option) == value
    assert "Key: 'k'" in str(option)


def test_an_option_by_the_name_of_a_group_is_unknown() -> None:
    with pytest.raises(ConfigurationError, match=r"restart-strategy\.fixed-delay is not an option"):
        Configuration.from_dict({"restart-strategy.fixed-delay": "3"}).validate()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("off", "none"),
        ("Disable", "none"),
        ("fixeddelay", "fixed-delay"),
        ("FAILURE_RATE", "failure-rate"),
        ("failurerate", "failure-rate"),
        ("exponentialdelay", "exponential-delay"),
    ],
)
def test_restart_strategies_have_all_the_names_that_flink_knows(text: str, name: str) -> None:
    assert Configuration.from_dict({"restart-strategy": text}).get(scheduler_options.RESTART_STRATEGY) == name


def test_flinks_older_keys_are_heard() -> None:
    config = Configuration.from_dict({"restart-strategy": "fixed-delay", "state.backend": "hashmap"})
    config.validate()
    assert (config.get(scheduler_options.RESTART_STRATEGY), config.get(options.STATE_BACKEND)) == (
        "fixed-delay",
        "hashmap",
    )
    with pytest.raises(ConfigurationError, match="restart-strategy = 'fixed': expected one of"):
        Configuration.from_dict({"restart-strategy": "fixed"}).validate()


def test_a_dict_gets_numbers_and_booleans_as_they_were_set() -> None:
    config = Configuration().set_string("s", "value").set_integer("i", 1).set_float("f", 1.5).set_boolean("b", True)
    config.set_bytearray("x", bytearray([1, 2, 3])).set("d", Duration.of_seconds(2)).set("l", ["a", "b"])
    config.set("m", RuntimeExecutionMode.BATCH)
    found: dict[str, Any] = {"other": None}
    Configuration().add_all(Configuration(config), "p.").add_all_to_dict(found)
    assert found == {
        "other": None, "p.s": "value", "p.i": 1, "p.f": 1.5, "p.b": True, "p.x": bytearray([1, 2, 3]),
        "p.d": "2000 ms", "p.l": "a;b", "p.m": "BATCH",
    }  # fmt: skip
    assert found["p.b"] is True


def test_configurations_are_compared_as_text() -> None:
    given, read = Configuration().set_integer("i", 1), Configuration().set_string("i", "1")
    assert given == read
    assert hash(given) == hash(read)
    copied = copy.deepcopy(given)
    assert copied == given
    copied.set_integer("i", 2)
    assert copied != given


def test_its_text_is_as_in_flink_and_has_no_secrets() -> None:
    configuration = Configuration().set_string("k1", "v1").set_integer("k2", 1)
    assert str(configuration) == "{k1=v1, k2=1}"
    assert repr(configuration) == "Configuration({'k1': 'v1', 'k2': '1'})"
    configuration.set_string("headrace.storage.secret", "hush")
    assert "hush" not in f"{configuration} {configuration!r}"


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        (None, []),
        ("", []),
        ("a", ["a"]),
        ("a;b;", ["a", "b", ""]),
        ("file:///a.jar", ["file:///a.jar"]),
        ("[]", []),
        ("[a, b c ,]", ["a", "b c"]),
        ("['a, b', \"c\\n\\\"\", 'it''s']", ["a, b", 'c\n"', "it's"]),
        ("[1, -2.5, 1e3, true, null, '1', 1.2.3]", [1, -2.5, 1000.0, True, None, "1", "1.2.3"]),
        ("- a, b\n- 'c'\n\n  - 7\n", ["a, b", "c", 7]),
        (str(["file:///a.jar", "b"]), ["file:///a.jar", "b"]),
    ],
)
def test_values_that_are_lists(text: str | None, elements: list[Any]) -> None:
    assert Configuration.parse_list_value(text) == elements


@pytest.mark.parametrize("text", ["[a, [b]]", "[{a: b}]", "['a]", "['a' b]", "[,]"])
def test_lists_of_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="a list of plain or quoted values"):
        Configuration.parse_list_value(text)


def test_a_mapping_of_names() -> None:
    read = config_options.text_mapping("x=y")
    assert read(" a = b;; c=d=e=f ; ") == {"a": "b", "c=d=e": "f"}
    for text in ("a", "=b", "a=", "a=b;a=c"):
        with pytest.raises(ValueError, match=r"pairs such as 'x=y'$|one value for 'a'"):
            read(text)
