"""The archive of a job: its modules, headrace, and the packages that both need."""

from __future__ import annotations

import errno
import os
import pydoc
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from compileall import compile_dir
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.main import app
from headrace.client.dependencies import package_job
from headrace.common.errors import InvalidProgramError

NEEDED = ("cloudpickle", "numpy", "pandas", "pyarrow", "rich", "typer")
"""The packages of headrace itself, with the extra that every job on a cluster needs, without PySpark."""


def wheel(folder: Path, name: str, number: str, tag: str = "py3-none-any") -> None:
    """A package as small as pip takes it: a module that says what it is."""
    about = f"{name}-{number}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{number}-{tag}.whl", "w") as file:
        file.writestr(f"{name}.py", f"NAME = {name!r}\n")
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        file.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n")
        file.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which pip takes all packages; what headrace needs is there, in the versions of this Python.

    Of an archive only the outermost modules are compiled, for all of headrace takes seconds.
    """
    folder = tmp_path / "index"
    folder.mkdir()
    for name in NEEDED:
        wheel(folder, name, version(name))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr("headrace.client.dependencies.compileall.compile_dir", partial(compile_dir, maxlevels=0))
    return folder


@pytest.fixture
def unzipped_index(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, whose wheels are unzipped if they are asked for: pip takes seconds, and does nothing else with them."""

    def install(listing: str, packages: Path, *_: object) -> None:
        wanted = {re.split(r"\W", line)[0] for line in Path(listing).read_text().splitlines()}
        for path in index.glob("*.whl"):
            if path.name.partition("-")[0] in wanted:
                with zipfile.ZipFile(path) as file:
                    file.extractall(packages)

    monkeypatch.setattr("headrace.client.dependencies.install", install)
    return index


@pytest.fixture
def small_headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few modules in place of headrace: to compress all of it takes more than a second."""
    folder = tmp_path / "installed" / "headrace"
    folder.mkdir(parents=True)
    for name in ("__init__", "one", "two"):
        (folder / f"{name}.py").write_text("")
    monkeypatch.setattr("headrace.client.dependencies.headrace", SimpleNamespace(__file__=str(folder / "__init__.py")))


@pytest.fixture
def small_index(unzipped_index: Path, small_headrace: None) -> Path:
    """Small packages, for tests of what is beside them in an archive."""
    return unzipped_index


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job."""
    folder = tmp_path / "rates"
    (folder / "tables").mkdir(parents=True)
    (folder / "main.py").write_text("import tables.rates\n")
    (folder / "tables" / "rates.py").write_text("RATE = 7\n")
    (folder / "tables" / "rates.csv").write_text("a,1\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").touch()
    return folder


def names(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as file:
        return {name for name in file.namelist() if not name.endswith(".pyc")}


def packaged(job: Path, archive: Path, extras: Sequence[str] = (), **told: Any) -> Path:
    package_job(job, archive, extras, **told)
    return archive


@pytest.mark.slow
def test_what_is_in_it(index: Path, job: Path, tmp_path: Path) -> None:
    wheel(index, "rates_of_the_bank", "2.5")
    (job / "requirements.txt").write_text("# of the job\nrates-of-the-bank>=2\npyspark==4.1.0\nheadrace\n")
    archive = tmp_path / "out" / "rates.zip"
    packages = package_job(job, archive)
    wanted = [f"{name} {version(name)}" for name in NEEDED]
    assert packages == sorted([*wanted, f"headrace {headrace.__version__}", "rates_of_the_bank 2.5"])
    found = names(archive)
    assert "obstore.py" not in found
    assert {"main.py", "tables/rates.py", "tables/rates.csv", "rates_of_the_bank.py", "headrace/__init__.py"} <= found
    assert not [name for name in found if name.startswith((".git", "requirements", "pyspark"))]
    assert [path.name for path in archive.parent.iterdir()] == ["rates.zip"]


def test_a_python_without_packages_imports_from_it(unzipped_index: Path, job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(packaged(job, tmp_path / "rates.zip")) as file:
        file.extractall(folder)
    program = (
        "import headrace, rich, tables.rates\n"
        "from importlib.metadata import version\n"
        "print(tables.rates.RATE, rich.NAME, version('headrace'))\n"
    )
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": "unpacked"}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["7", "rich", headrace.__version__], done.stderr


def test_the_same_job_makes_the_same_bytes(small_index: Path, job: Path, tmp_path: Path) -> None:
    first, second = (packaged(job, tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second


@pytest.mark.slow
def test_two_archives_of_one_name_are_made_at_one_time(
    small_index: Path, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins and ends while the first one is written; each is whole, and the last one stays."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "other.py").write_text("")
    archive, copy, seen = tmp_path / "rates.zip", shutil.copyfileobj, []

    def copy_meanwhile(source: Any, target: Any) -> None:
        if not seen:
            seen.append("begun")
            seen.append(names(packaged(other, archive)) & {"main.py", "other.py"})
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfileobj", copy_meanwhile)
    package_job(job, archive)
    assert seen == ["begun", {"other.py"}]
    assert names(archive) & {"main.py", "other.py"} == {"main.py"}
    assert not [*tmp_path.glob(".*")]


@pytest.mark.slow
def test_an_archive_in_the_jobs_own_folder_is_not_in_the_next_one(small_index: Path, job: Path) -> None:
    archive = job / "rates.zip"
    first = packaged(job, archive).stat().st_size
    assert packaged(job, archive).stat().st_size == first
    assert "rates.zip" not in names(archive)
    below = job / "tables" / "rates.zip"
    for _ in range(2):
        package_job(job, below)
        assert names(below) == names(archive) | {"rates.zip"}


def test_a_folder_without_modules_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "nothing"
    (folder / "__pycache__").mkdir(parents=True)
    result = CliRunner().invoke(app, ["package", str(folder), "--output", str(folder / "nothing.zip")])
    assert result.exit_code == 1
    assert "nothing is empty" in result.stderr.replace("\n", " ")
    assert not (folder / "nothing.zip").exists()


@pytest.mark.slow
def test_an_extra_brings_its_packages(small_index: Path, job: Path, tmp_path: Path) -> None:
    wheel(small_index, "obstore", version("obstore"))
    assert "obstore.py" in names(packaged(job, tmp_path / "one.zip", ["cloud"]))
    (job / "requirements.txt").write_text("headrace[spark, cloud]>=0.1\n")
    assert "obstore.py" in names(packaged(job, tmp_path / "two.zip"))


@pytest.mark.slow
def test_an_extra_that_is_none(index: Path, small_headrace: None, job: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match=r"headrace has no extra clouds$"):
        package_job(job, tmp_path / "rates.zip", ["clouds"])


def test_a_module_with_the_name_of_a_package(small_index: Path, job: Path, tmp_path: Path) -> None:
    (job / "numpy.py").touch()
    with pytest.raises(InvalidProgramError, match=r"rates/numpy\.py has the name of a package that the job needs"):
        package_job(job, tmp_path / "rates.zip")
    assert not (tmp_path / "rates.zip").exists()


def test_a_module_that_a_package_would_hide(small_index: Path, job: Path, tmp_path: Path) -> None:
    (job / "headrace.py").touch()
    with pytest.raises(InvalidProgramError, match=r"rates/headrace\.py has the name of a package that the job needs"):
        package_job(job, tmp_path / "rates.zip")


def test_what_cannot_be_copied_is_named(job: Path, tmp_path: Path) -> None:
    tables = job / "tables"

    def link(target: str) -> Path:
        tables.joinpath("link").symlink_to(target)
        return tables / "link"

    def odd() -> Path:
        path = Path(os.fsdecode(bytes(tables) + b"/a\xff.csv"))
        path.touch()
        return path

    for make, told in (
        (lambda: link("nowhere"), r"tables/link cannot be put into the archive: .*No such file"),
        (lambda: link(".."), r"tables/link is a link to a folder that it is in"),
        (odd, r"tables/a\\xff\.csv' is not UTF-8"),
    ):
        path = make()
        with pytest.raises(InvalidProgramError, match=told):
            package_job(job, tmp_path / "rates.zip")
        path.unlink()
    (job / "requirements.txt").write_bytes("café\n".encode("latin-1"))
    with pytest.raises(InvalidProgramError, match=r"requirements\.txt is not UTF-8 at byte 3"):
        package_job(job, tmp_path / "rates.zip")
    with pytest.raises(InvalidProgramError, match=r"is a folder: give the name of the archive"):
        package_job(job, tmp_path)
    assert not (tmp_path / "rates.zip").exists()


def test_links_lead_to_what_is_packed(small_index: Path, job: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "common.py").touch()
    (job / "shared").symlink_to("../shared")
    assert "shared/common.py" in names(packaged(job, tmp_path / "rates.zip"))


@pytest.mark.slow
def test_another_python_gets_wheels_of_its_own(index: Path, small_headrace: None, job: Path, tmp_path: Path) -> None:
    (index / f"numpy-{version('numpy')}-py3-none-any.whl").unlink()
    wheel(index, "numpy", version("numpy"), "cp313-cp313-manylinux_2_28_aarch64")
    target = {"--python-version": "3.13", "--platform": "manylinux_2_28_aarch64"}
    archive = packaged(job, tmp_path / "rates.zip", target=target)
    with zipfile.ZipFile(archive) as file:
        assert "numpy.py" in file.namelist()
        assert not [name for name in file.namelist() if name.endswith(".pyc")]


@pytest.mark.slow
def test_the_command_says_what_is_missing(index: Path, small_headrace: None, job: Path, tmp_path: Path) -> None:
    (job / "requirements.txt").write_text("no-such-package\n")
    ran = CliRunner().invoke(app, ["package", str(job), "-o", str(tmp_path / "rates.zip")])
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: headrace package: pip could not install what")
    assert "No matching distribution found for no-such-package" in ran.stderr


class FullDisk:
    """Writes as another function does, until the given call."""

    def __init__(self, write: Callable[..., Any], refused: int) -> None:
        self.write, self.refused, self.calls = write, refused, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == self.refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.write(*args, **kwargs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("writes", "call", "what"),
    [
        ("shutil.copyfile", 1, "rates/main.py cannot be put into the archive"),
        ("shutil.copyfile", 5, "cannot write its temporary files, for which TMPDIR says another folder"),
        ("tempfile.mkdtemp", 1, "cannot write its temporary files, for which TMPDIR says another folder"),
        ("shutil.copyfileobj", 7, "cannot write {archive}"),
    ],
)
def test_a_full_disk_is_one_message_and_leaves_nothing(
    small_headrace: None,
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writes: str,
    call: int,
    what: str,
) -> None:
    archive, temporary = tmp_path / "made" / "rates.zip", tmp_path / "temporary"
    archive.parent.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr("headrace.client.dependencies.install", lambda _, packages, *__: packages.mkdir())
    monkeypatch.setattr("headrace.client.dependencies.compileall.compile_dir", lambda *_, **__: None)
    disk = FullDisk(pydoc.locate(writes), call)
    monkeypatch.setattr(writes, disk)
    ran = CliRunner().invoke(app, ["package", str(job), "-o", str(archive)])
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: ")
    assert what.format(archive=archive) in ran.stderr
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert disk.calls >= call
    assert not [*archive.parent.iterdir(), *temporary.iterdir()]


@pytest.mark.slow
def test_the_command_says_how_to_go_on(
    small_index: Path, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["package", "rates"])
    assert ran.exit_code == 0, ran.output
    assert "made rates.zip (" in ran.stdout
    submit = "--archives 'rates.zip#job' --conf spark.executorEnv.PYTHONPATH=job rates/main.py"
    assert f"spark-submit --master spark://HOST:7077 {submit}\n" in ran.stdout
    assert "headrace run --master spark://HOST:7077 -D 'spark.archives=rates.zip#job'" in ran.stdout
