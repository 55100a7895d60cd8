"""Patterns that are drawn at random find what Flink's own library finds, which runs beside."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from pathlib import Path
from random import Random

import pytest

from tests.cep.conformance.__main__ import told
from tests.cep.conformance.draws import draw_case

HERE = Path(__file__).parent
COUNT = int(os.environ.get("HEADRACE_CEP_DRAWS", "500"))


@pytest.mark.slow
@pytest.mark.skipif("FLINK_LIB" not in os.environ, reason="FLINK_LIB says where Flink's jars are")
def test_drawn_patterns_find_what_flink_finds(tmp_path: Path) -> None:
    first = Random().randrange(1 << 32)
    drawn = [draw_case(Random(seed), f"seed {seed}") for seed in range(first, first + COUNT)]
    run = subprocess.run(
        [HERE / "oracle" / "run.sh", tmp_path / "classes"],
        input="".join(json.dumps(case) + "\n" for case in drawn),
        capture_output=True,
        text=True,
        check=True,
    )
    answered = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answered) > COUNT * 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # windows that change nothing are drawn, too
        found = {case["id"]: told(case) for case in answered}
    assert {name: text for name, text in found.items() if text is not None} == {}
