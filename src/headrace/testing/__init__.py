"""For testing jobs: a harness that runs a job in the test's own process, step by step, without Spark.

::

    from headrace.testing import JobHarness
"""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.testing.checkpoint import Checkpoint
from headrace.testing.harness import JobHarness

__all__ = ["Checkpoint", "JobHarness"]

public_module(__name__)
