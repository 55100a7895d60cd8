"""The page on the architecture knows the layers as they are."""

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


def test_modules_that_are_named_exist() -> None:
    text = (DOCS / "architecture.md").read_text()
    options = (SOURCE / "common" / "options.py").read_text()
    named = {name.removeprefix("headrace.") for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", text)}
    modules = {name for name in named if (SOURCE / name.split(".")[0]).is_dir() and f'"headrace.{name}"' not in options}
    of_an_epoch = text.split("| of an epoch | in `headrace.jobmanager` |")[1].split("\n\n")[0]
    modules |= {f"jobmanager.{name}" for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", of_an_epoch)}
    assert len(modules) > 50
    paths = [SOURCE / name.replace(".", "/") for name in sorted(modules)]
    assert [path for path in paths if not path.is_dir() and not path.with_suffix(".py").is_file()] == []


def _is_there(package: Path) -> bool:
    return package.is_dir() or package.with_suffix(".py").is_file()
