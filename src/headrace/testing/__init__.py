"""For testing jobs: a harness that runs a job in the test's own process, step by step, without Spark.

::

    from headrace.testing import JobHarness
"""

from headrace.common.public_module import public_module
from headrace.operators.pattern.stored_matches import StoredMatch
from headrace.operators.window.stored_windows import StoredWindow
from headrace.testing.harness import JobHarness
from headrace.testing.stored_state import Checkpoint, PendingTimer

__all__ = ["Checkpoint", "JobHarness", "PendingTimer", "StoredMatch", "StoredWindow"]

public_module(__name__)
