"""The page on the architecture knows the layers as they are."""

from __future__ import annotations

import re
import tomllib

from tests.docs.documents import DOCS, ROOT

SOURCE = ROOT / "src" / "headrace"


def test_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [re.findall(r"\((.+?)\)", layer) for layer in contracts[0]["layers"]]
    # The contract also has places for packages that are yet to come.
    checked = [layer for layer in checked if any((SOURCE / name.replace(".", "/")).is_dir() for name in layer)]
    rows = re.findall(r"^\| (`[^|]+`) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    described = [re.findall(r"`([\w.]+)`", row) for row in rows]
    assert described[: len(checked)] == checked
