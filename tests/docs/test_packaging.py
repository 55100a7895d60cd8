"""What is published: the source distribution has all of the repository, the wheel only the package."""

from __future__ import annotations

import tomllib

from tests.docs.documents import ROOT

TARGETS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]


def test_the_source_distribution_has_every_folder() -> None:
    included = TARGETS["sdist"]["include"]
    assert included == [
        "/src",
        "/tests",
        "/docs",
        "/examples",
        "/benchmarks",
        "/LICENSE",
        "/NOTICE",
        "/Makefile",
        "/README.md",
    ]
    assert [path for path in included if not (ROOT / path.lstrip("/")).exists()] == []


def test_the_wheel_has_the_package_only() -> None:
    assert TARGETS["wheel"] == {"packages": ["src/headrace"]}
