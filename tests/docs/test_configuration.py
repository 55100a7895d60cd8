"""The page on configuration lists every option as it is, and says which ones change nothing."""

from __future__ import annotations

import re

import pytest

from headrace.common import options, scheduler_options, server_options
from headrace.common.config_options import ConfigOption
from tests.docs import options_table
from tests.docs.documents import ROOT, between

PAGE = options_table.PAGE.read_text()


@pytest.mark.parametrize("name", options_table.LISTS)
def test_the_lists_are_up_to_date(name: str) -> None:
    assert between(PAGE, name) == options_table.LISTS[name](), "run `python -m tests.docs.options_table`"


def test_options_without_effect_are_named() -> None:
    listed = re.findall(r"^- `([^`]+)`", between(PAGE, "without effect"), re.MULTILINE)
    package = ROOT / "src" / "headrace"
    # The API only stores options; what acts on them is below it.
    sources = [path.read_text() for path in package.rglob("*.py") if "datastream" not in path.parts]
    used = {name for text in sources for name in re.findall(r"(?:\b|_)options\.([A-Z_]+)\b", text)}
    named = vars(options) | vars(scheduler_options) | vars(server_options)
    unused = [value.key for name, value in named.items() if isinstance(value, ConfigOption) and name not in used]
    assert sorted(listed) == sorted(unused)


def test_examples_run() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    names: dict[str, object] = {}
    exec(code, names)
    env = names["env"]
    assert env.get_configuration().to_dict() == {  # type: ignore[attr-defined]
        "execution.checkpointing.dir": "/data/checkpoints/spending",
        "parallelism.default": "4",
    }
