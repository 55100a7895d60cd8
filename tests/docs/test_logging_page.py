"""The page on logging names every logger, and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.documents import DOCS, ROOT, between, tables

PAGE = (DOCS / "logging.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def modules_that_log() -> set[str]:
    """Loggers have the names of their modules, unless they say another."""
    source = ROOT / "src"
    texts = {path: path.read_text() for path in source.rglob("*.py")}
    found = [path for path, text in texts.items() if re.search(r"^logger = ", text, re.MULTILINE)]
    others = {
        name for text in texts.values() for name in re.findall(r'= get_logger\("([a-z_.]+)"\)$', text, re.MULTILINE)
    }
    return {".".join(path.relative_to(source).with_suffix("").parts) for path in found} | others


def test_every_logger_is_below_one_that_is_documented() -> None:
    documented = {row[0].strip("`") for row in tables(between(PAGE, "loggers"))}
    loggers = modules_that_log()
    assert {name for name in loggers if not any(f"{name}.".startswith(f"{parent}.") for parent in documented)} == set()
    assert {
        parent for parent in documented if not any(f"{name}.".startswith(f"{parent}.") for name in loggers)
    } == set()
    named = set(re.findall(r"`(headrace\.[a-z.]*\.[a-z_]+)`", between(PAGE, "loggers"))) - documented
    assert named <= loggers


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_run(number: int) -> None:
    program = f"{EXAMPLES[number]}\nfrom headrace.common.logs import get_logger\n"
    program += "get_logger('headrace.client.submission').warning('after it')\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "after it" in done.stderr
    if "shop" in program:
        assert " INFO shop: a large one: 3\n" in done.stderr
