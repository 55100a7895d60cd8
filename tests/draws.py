"""How many examples hypothesis draws: a share of them in `make test`, many times as many in `make test-draws`."""

from __future__ import annotations

import os
from typing import Final

_SHARE: Final = float(os.environ.get("HEADRACE_DRAWS", "0.1"))
_FEWEST: Final = 3


def draws(examples: int) -> int:
    """The share of the examples that this run draws; HEADRACE_DRAWS says it, and may be more than 1."""
    return max(min(examples, _FEWEST), round(examples * _SHARE))
