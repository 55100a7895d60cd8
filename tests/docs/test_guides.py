"""Whoever follows a tutorial or another guide from top to bottom sees what the page shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.documents import DOCS
from tests.docs.guides import Reader, blocks, commands, matches
from tests.forks import Forks

GUIDES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md"), *DOCS.glob("coming-from-*.md")])


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    """Those of a page whose programs each start a Spark."""
    needs_spark = any("import SparkSession" in block.text for block in blocks(page))
    return [pytest.mark.integration, pytest.mark.slow] if needs_spark else []


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=_marks(page)) for page in GUIDES],
)
def test_a_page_is_as_it_says(page: Path, tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert Reader(page, tmp_path, forks).follow() > 0


# --- the reader sees mistakes ----------------------------------------------------------------------------------------


def follow(text: str, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> int:
    page = forks.folder / "page.md"
    page.write_text(text)
    monkeypatch.chdir(forks.folder)
    return Reader(page, forks.folder, forks).follow()


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nprint(1)\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```console\n1\n```\n",
        "```text\n1\n```\n",
        "```shell\nls\n```\n",
        "```console\n$ echo 1\n1\n$ echo 2\n1\n```\n",
        "- a list\n\n  ```console\n  $ false && true\n  1\n  ```\n",
        '```text title="a"\n1\n```\n\n```diff title="a"\n- 2\n+ 3\n```\n',
    ],
)
def test_what_is_not_so_is_found(text: str, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match=r"page\.md, line \d"):
        follow(text, forks, monkeypatch)


def test_files_sessions_and_commands_belong_together(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    page = """
1. Two parts of a file:

    ```python title="numbers_of_a_page.py"
    FIRST = 1
    ```

    ```python title="numbers_of_a_page.py"
    SECOND = 2
    ```

```diff title="numbers_of_a_page.py"
  FIRST = 1
- SECOND = 2
+ SECOND = 3
```

```python
from numbers_of_a_page import FIRST, SECOND
```

```python
print(FIRST, SECOND)
```

```text
1 3
```

```console
$ python -c \\
    "from numbers_of_a_page import *; print(SECOND)"
3
$ ls
numbers_of_a_page.py
...
page.md
```

```bash
false
```
"""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # the folder is to have what the page puts there
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert follow(page, forks, monkeypatch) == 6


def test_dots_stand_for_anything() -> None:
    assert matches("a 1 b\nc  \nd\n", "a ... b\n...\nd")
    assert not matches("a 1 b\nc\nd\n", "a ... b\nd")
    assert not matches("a\nb", "a")


def test_blocks_and_commands_are_found_where_they_are(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```console\n$ a\n1\n\n2\n$ b\n```\n\n```toml\n```\n")
    first, second = blocks(page)
    assert (first.line, second.language, second.text) == (4, "toml", "")
    assert commands(first) == [("a", "1\n\n2\n"), ("b", "")]
