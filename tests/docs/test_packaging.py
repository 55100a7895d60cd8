"""What is published: the source distribution has all of the repository, the wheel only the package."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SDIST = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
NOT_PUBLISHED = {".ci", ".git", ".gitignore"}
"""Of the repository; what ``.gitignore`` names is no part of it."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions, built by the backend that is installed."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (path,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return HeaderParser().parsestr(wheel.read(path).decode())


def ignored(path: Path) -> bool:
    command = ["git", "-C", str(ROOT), "check-ignore", "--quiet", str(path)]
    return subprocess.run(command, check=False).returncode == 0


@pytest.mark.slow
def test_the_source_distribution_has_all_of_the_repository() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a repository")
    there = {path.name for path in ROOT.iterdir() if path.name not in NOT_PUBLISHED and not ignored(path)}
    assert {name.lstrip("/") for name in SDIST} | {"pyproject.toml"} == there


@pytest.mark.slow
@pytest.mark.long
def test_the_source_distribution_can_be_built_and_tested(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"pyproject.toml", "PKG-INFO", "Makefile", "mkdocs.yml", "src/headrace/py.typed", "tests/conftest.py"}
    assert expected <= names
    assert {"docs/index.md", "examples/data/apache_access.log.gz", ".github/workflows/test.yml"} <= names


@pytest.mark.slow
def test_the_wheel_has_the_package_only(wheel: zipfile.ZipFile) -> None:
    package = ROOT / "src" / "headrace"
    files = {str(path.relative_to(ROOT / "src")) for path in package.rglob("*") if path.is_file()}
    files = {path for path in files if "__pycache__" not in path}
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == files
    assert "headrace/py.typed" in found
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel.namelist())


def test_links_of_the_description_lead_out_of_pypi(metadata: Message) -> None:
    links = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", metadata.get_payload())
    assert [link for link in images if "/raw.githubusercontent.com/" not in link] == []


def test_the_project_says_where_it_is(metadata: Message) -> None:
    said = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert said.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    site = (ROOT / "mkdocs.yml").read_text()
    assert f"site_url: {said['Documentation']}\n" in site
    assert f"repo_url: {said['Homepage']}\n" in site


def test_pypi_can_show_it(built: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
