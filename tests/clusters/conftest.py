"""What jobs on clusters share: the archive of the job, and an interpreter that has nothing."""

from __future__ import annotations

import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from tests.clusters.containers import Image, built_image
from tests.clusters.packaged import JOB


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``headrace package`` makes of the job."""
    path = tmp_path_factory.mktemp("archive") / "totals.zip"
    made = CliRunner().invoke(app, ["package", str(JOB), "--output", str(path)])
    assert made.exit_code == 0, made.output
    assert f"--archives '{path}#job' --conf spark.executorEnv.PYTHONPATH=job {JOB / 'main.py'}" in made.output
    return path


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image of `examples/kubernetes`."""
    with built_image() as made:
        yield made
