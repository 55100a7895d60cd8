"""The other end of :mod:`benchmarks.launch`: runs one program in this process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.outcome import Assignment, Outcome


def main(program: str, assignment_file: str, outcome_file: str) -> None:
    """Run a program.

    Args:
        program: the module in :mod:`benchmarks.programs`.
        assignment_file: where its assignment is.
        outcome_file: where its outcome goes.
    """
    module = importlib.import_module(f"benchmarks.programs.{program}")
    assignment = Assignment.from_json(Path(assignment_file).read_text())
    outcome: Outcome = module.run(assignment)
    Path(outcome_file).write_text(outcome.to_json())


if __name__ == "__main__":
    main(*sys.argv[1:])
