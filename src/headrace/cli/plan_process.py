"""Plans the job of a program for a dispatcher: ``python -m headrace.cli.plan_process FOLDER``; nothing is run of it."""

import contextlib
import json
import sys
from pathlib import Path

from headrace.cli.job_process import script_of
from headrace.cli.run import run_script
from headrace.cli.sql.client import SqlClient, tables_with
from headrace.client.running import GraphCaptured, capture_graphs
from headrace.common.durable import write_file
from headrace.common.errors import HeadraceError
from headrace.plan.plan_document import plan_to_document
from headrace.server.cluster.processes import PLAN, TASK, JobTask


def main(folder: Path) -> int:
    """Run a program up to its first job, and write the plan of that beside it.

    Returns:
        The exit code.
    """
    task = JobTask.read(folder / TASK)
    program = Path(task.program)
    with capture_graphs(task.settings) as captured, contextlib.redirect_stdout(sys.stderr):
        try:
            if program.suffix == ".sql":
                SqlClient(tables_with(task.settings), _say).run(program.read_text(), program.name)
            else:
                run_script(script_of(program, task.entry), task.arguments)
        except GraphCaptured:
            pass
        except HeadraceError as error:
            sys.stderr.write(f"{error}\n")
    if not captured:
        sys.stderr.write(f"{program.name} came to no job\n")
        return 1
    write_file(folder / PLAN, [json.dumps(plan_to_document(captured[0][1])).encode()], durable=False)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
