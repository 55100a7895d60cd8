"""Which settings a session of headrace's own gets, and which it accepts in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import ConfigurationError
from headrace.runtime.spark.settings import (
    SettingMismatch,
    SparkSetting,
    mismatch_table,
    quiet_log_level,
    quiet_logging,
    read_spark_defaults,
    runs_tasks_in_driver,
    settings_of_own_session,
)


def test_master_is_local_unless_somebody_names_one() -> None:
    assert settings_of_own_session({}, None, {})["spark.master"] == "local[*]"
    assert settings_of_own_session({}, None, {"spark.master": "yarn"})["spark.master"] == "yarn"
    assert (
        settings_of_own_session({"spark.master": "k8s://x"}, None, {"spark.master": "yarn"})["spark.master"]
        == "k8s://x"
    )
    assert settings_of_own_session({}, "local[3]", {"spark.master": "yarn"})["spark.master"] == "local[3]"


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[*]", True), ("local[2]", True), ("local-cluster[1,1,1024]", False), ("yarn", False)],
)
def test_only_a_local_master_has_no_executors(master: str, expected: bool) -> None:
    assert runs_tasks_in_driver(master) is expected


def test_own_wishes_give_way_to_spark_s_configuration_and_both_to_the_user_s() -> None:
    given_to_spark = {"spark.scheduler.mode": "FIFO", "spark.driver.memory": "7g"}

    chosen = settings_of_own_session({"spark.driver.memory": "9g"}, None, given_to_spark)

    assert "spark.scheduler.mode" not in chosen
    assert chosen["spark.driver.memory"] == "9g"
    assert chosen["spark.sql.adaptive.enabled"] == "false"


def test_java_is_kept_frugal_unless_the_user_tunes_it() -> None:
    key, default = "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"

    assert "SerialGC" in settings_of_own_session({}, None, {})[default]
    assert "SerialGC" in settings_of_own_session({key: "-Da=b"}, None, {})[default]
    assert default not in settings_of_own_session({}, None, {key: "-XX:+UseG1GC"})
    assert default not in settings_of_own_session({key: "-XX:+UseG1GC"}, None, {})
    assert default not in settings_of_own_session({}, "yarn", {})


def test_cluster_keeps_its_memory_its_addresses_and_its_ui() -> None:
    chosen = settings_of_own_session({}, "spark://host:7077", {})

    assert not {"spark.driver.memory", "spark.driver.host", "spark.ui.enabled"} & chosen.keys()


def test_foreign_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'parallelism' is not a setting of Spark"):
        settings_of_own_session({"parallelism": "4"}, None, {})


def test_two_masters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the master is given twice"):
        settings_of_own_session({"spark.master": "yarn"}, "local[2]", {})


@pytest.mark.parametrize(
    ("found", "accepted"),
    [("5min", True), ("300s", True), ("300", True), ("1h", False), ("30min", False), ("", False), ("soon", False)],
)
def test_upper_bound_on_a_duration(found: str, accepted: bool) -> None:
    setting = SparkSetting("spark.cleaner.periodicGC.interval", "5min", "why", upper_bound=True)

    assert setting.accepts(found) is accepted


def test_flag_in_any_case() -> None:
    assert SparkSetting("spark.flag", "true", "why").accepts("TRUE")
    assert not SparkSetting("spark.flag", "true", "why").accepts("false")


def test_any_value_but_none() -> None:
    setting = SparkSetting("spark.folder", "/tmp", "why", any_value=True)
    assert setting.accepts("/tmp")
    assert setting.accepts("/var/run")
    assert not setting.accepts("")


def test_spark_defaults_file() -> None:
    text = "# a comment\n\nspark.master    yarn\nspark.eventLog.dir=hdfs://logs:9000/x y \nspark.lonely\n"

    assert read_spark_defaults(text) == {"spark.master": "yarn", "spark.eventLog.dir": "hdfs://logs:9000/x y"}


def test_unix_sockets_have_short_paths_on_yarn() -> None:
    key = "spark.python.unix.domain.socket.dir"
    assert settings_of_own_session({}, "yarn", {})[key] == "/tmp"
    assert key not in settings_of_own_session({}, "yarn", {key: "/var/run"})
    assert key not in settings_of_own_session({}, "spark://host:7077", {})


def test_quiet_logging_keeps_the_user_s_java_options() -> None:
    options = quiet_logging({"spark.driver.extraJavaOptions": "-Dx=1"}, None)["spark.driver.extraJavaOptions"]

    assert options.startswith("-Dx=1 -Dlog4j2.configurationFile=file:///")
    assert Path(options.removeprefix("-Dx=1 -Dlog4j2.configurationFile=file://")).is_file()


def test_quiet_logging_leaves_a_log_configuration_alone(tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").touch()

    assert quiet_logging({}, tmp_path) == {}
    assert quiet_logging({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine"}, None) == {}


def test_the_log_level_of_a_java_that_runs_already(tmp_path: Path) -> None:
    assert quiet_log_level({}, None) == {"spark.log.level": "ERROR"}
    assert quiet_log_level({"spark.log.level": "INFO"}, None) == {}
    assert quiet_log_level({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine"}, None) == {}
    (tmp_path / "log4j2.properties").touch()
    assert quiet_log_level({}, tmp_path) == {}


def test_all_that_a_session_lacks_is_one_table() -> None:
    table = mismatch_table(
        [SettingMismatch("spark.a", "", "true", "slow"), SettingMismatch("spark.bcd", "7", "8", "full")]
    )
    assert table.splitlines()[1:] == [
        "  setting    is       should be  why",
        "  spark.a    not set  true       slow",
        "  spark.bcd  7        8          full",
    ]
