"""Pictures of the documentation are those that headrace draws now."""

from __future__ import annotations

import re
import runpy
from xml.etree import ElementTree

import pytest

from tests.docs.documents import DOCS
from tests.forks import Forks


@pytest.mark.slow
def test_the_plan_of_the_demo(forks: Forks) -> None:
    script = runpy.run_path(str(DOCS / "images" / "draw_graph.py"))
    drawn = forks.start_command(*script["COMMAND"]).wait().output
    assert script["PICTURE"].read_text(encoding="utf-8") == drawn, "run: python docs/images/draw_graph.py"


@pytest.mark.slow
def test_the_panel_of_the_demo() -> None:
    script = runpy.run_path(str(DOCS / "images" / "draw_panel.py"))
    svg = script["picture"](script["recorded"](20_000))
    shown = "".join(ElementTree.fromstring(svg).itertext()).replace("\N{NO-BREAK SPACE}", " ")
    assert "card fraud" in shown
    assert re.search(r"job 'card fraud' ended at epoch \d+: 20,000 records", shown)
    assert "alert: card-00000 pays 899.00" in shown
    assert "Nothing is missing, nothing is there twice." in shown
    assert set(re.findall(r"url\((.)", svg)) == {"#"}  # nothing from elsewhere
