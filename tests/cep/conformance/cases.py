"""The cases of patterns with the answers of Flink 2.3: hand-written ones, and random ones.

A case is an object of JSON: a pattern, the events and watermarks that come in, and what came out of Flink's operator.
``HEADRACE_CEP_CASES`` names another folder of cases, in files ``cases-*.jsonl`` and ``random-*.jsonl``, gzipped or not.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

GROUPS: Final = {"hand-written": "cases-*.jsonl*", "random": "random-*.jsonl*"}
"""The names of the files of each group."""


@cache
def cases(group: str) -> list[dict[str, Any]]:
    folder = Path(os.environ.get("HEADRACE_CEP_CASES", Path(__file__).parent))
    return [json.loads(line) for file in sorted(folder.glob(GROUPS[group])) for line in _text(file).splitlines()]


def _text(file: Path) -> str:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
