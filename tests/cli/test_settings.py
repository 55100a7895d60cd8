"""From command-line options to a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from headrace.cli.settings import job_settings
from headrace.common.errors import ConfigurationError


def test_named_options_win_over_definitions() -> None:
    settings = job_settings(
        ["parallelism.default=1", "spark.executor.memory=2g", "job.anything=a=b"],
        named={
            "parallelism.default": "4",
            "headrace.spark.master": "local[4]",
            "headrace.runtime": "local",
            "execution.checkpointing.dir": "/var/checkpoints",
            "execution.state-recovery.ignore-unclaimed-state": "true",
            "headrace.log.level": None,
        },
    )
    assert settings == {
        "parallelism.default": "4",
        "spark.executor.memory": "2g",
        "job.anything": "a=b",
        "headrace.spark.master": "local[4]",
        "headrace.runtime": "local",
        "execution.checkpointing.dir": "/var/checkpoints",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }


def test_a_file_of_settings_as_spark_and_flink_write_them(tmp_path: Path) -> None:
    file = tmp_path / "job.conf"
    file.write_text(
        "# secrets\nspark.hadoop.password   s3 cret\nparallelism.default: 2\n\npipeline.name=sums\nspark.ui.port 4041\n"
    )
    settings = job_settings(["spark.ui.port=4042"], properties_file=file, named={"parallelism.default": "4"})
    assert settings == {
        "spark.hadoop.password": "s3 cret",
        "parallelism.default": "4",
        "pipeline.name": "sums",
        "spark.ui.port": "4042",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\nspark.ui.port\n", r"job\.conf, line 2: expected a key"),
        (b"parallelism.defualt 4", r"did you mean"),
        (b"pipeline.name caf\xe9", r"job\.conf is not UTF-8 at byte 17"),
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "job.conf"
    file.write_bytes(text)
    with pytest.raises(ConfigurationError, match=message):
        job_settings(properties_file=file)


def test_what_is_not_given_is_not_set() -> None:
    assert job_settings() == {}


@pytest.mark.parametrize("definition", ["parallelism.default", "=4", ""])
def test_a_definition_is_a_key_and_a_value(definition: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected key=value"):
        job_settings([definition])


def test_a_misspelled_key_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean parallelism\.default"):
        job_settings(["parallelism.defualt=4"])


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one of spark, local"):
        job_settings(named={"headrace.runtime": "flink"})


def test_an_older_key_is_the_same_option(tmp_path: Path) -> None:
    file = tmp_path / "job.conf"
    now, older = "execution.checkpointing.dir", "state.checkpoints.dir"
    file.write_text(f"{now} /file\nspark.ui.port 4041\n")
    assert job_settings([f"{older}=/older"], properties_file=file) == {"spark.ui.port": "4041", older: "/older"}
    assert job_settings([f"{older}=/older"], properties_file=file, named={now: "/named"})[now] == "/named"
    for definitions in ([f"{now}=/now", f"{older}=/older"], [f"{older}=/older", f"{now}=/now"]):
        assert job_settings(definitions) == {now: "/now"}
    file.write_text(f"{older} /file\n")
    assert job_settings([f"{now}=/now"], properties_file=file) == {now: "/now"}
