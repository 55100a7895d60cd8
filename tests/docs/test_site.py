"""The site has every page, once."""

from __future__ import annotations

import re
from collections import Counter

from tests.docs.documents import DOCS, ROOT

NAVIGATION = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1].split("\n\n")[0]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = Counter(re.findall(r"([\w/-]+\.md)$", NAVIGATION, re.MULTILINE))
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert listed == Counter(there)
