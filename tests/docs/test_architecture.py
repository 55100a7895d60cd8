"""The pages on the architecture know layers and modules as they are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.docs.documents import DOCS, ROOT

SOURCE = ROOT / "src" / "headrace"


def test_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [re.findall(r"\((.+?)\)", layer) for layer in contracts[0]["layers"]]
    # The contract also has places for packages that are yet to come.
    checked = [layer for layer in checked if any(_is_there(SOURCE / name.replace(".", "/")) for name in layer)]
    rows = re.findall(r"^\| (`[^|]+`) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    described = [re.findall(r"`([\w.]+)`", row) for row in rows]
    assert described[: len(checked)] == checked


def test_modules_and_files_that_are_named_exist() -> None:
    pages = [DOCS / "architecture.md", *(DOCS / "architecture").glob("*.md"), DOCS / "onboarding.md"]
    text = "\n".join(page.read_text() for page in pages)
    options = (SOURCE / "common" / "options.py").read_text()
    named = {name.removeprefix("headrace.") for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", text)}
    modules = {name for name in named if (SOURCE / name.split(".")[0]).is_dir() and f'"headrace.{name}"' not in options}
    assert len(modules) > 50
    assert [name for name in sorted(modules) if not _is_there(SOURCE / name.replace(".", "/"))] == []
    paths = {name for name in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", text) if name != "shipped/"}
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (SOURCE / path).exists()] == []


def _is_there(package: Path) -> bool:
    return package.is_dir() or package.with_suffix(".py").is_file()
