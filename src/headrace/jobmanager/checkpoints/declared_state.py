"""What operators keep by themselves is compared with what is stored before a job runs, or anything is written.

What windows hold, what joins keep, timers and keys are of types that the plan knows. So a change that they do not
survive need not wait until tasks open them, when others have worked on records already. What only a function's ``open``
declares shows there.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.common.errors import InfrastructureError, StateCorruptedError, StateMigrationError
from headrace.common.logs import get_logger
from headrace.connectors.kept_clients import KeptClients
from headrace.operators.base import cannot_go_on
from headrace.runtime.task.operator_chain import operator_context, task_parameters
from headrace.state.backend import StateOwner
from headrace.state.exported import ExportedTable
from headrace.state.importing import imported_schema
from headrace.state.keyed.backend import STORE_PREFIX
from headrace.state.keyed.table import check_keys
from headrace.state.kinds import StateKind
from headrace.state.run_entries import RunHead
from headrace.state.runs.layout import KIND
from headrace.state.task_state import HashMapTaskStates

if TYPE_CHECKING:
    from headrace.checkpoint.manifest import Manifest
    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.runtime.task.messages import JobBlob
    from headrace.savepoint.metadata import TableFile
    from headrace.state.backend import StateBackend
    from headrace.storage.folder import Folder

logger = get_logger(__name__)

_TASKS_ASKED: Final = 4
"""So many tasks of each stage: all of them have stored the same types, as the same program has run in them."""


def heads_of_manifest(manifest: Manifest, backend: StateBackend, storage: Folder) -> Iterator[RunHead]:
    """What some tasks of each stage have stored.

    Args:
        manifest: the job.
        backend: what has written it.
        storage: where its state files are.
    """
    versions = list(manifest.versions())
    for stage in sorted({version.stage for version in versions}):
        for version in islice((each for each in versions if each.stage == stage), _TASKS_ASKED):
            yield from backend.heads(storage, version)


def heads_of_tables(tables: Iterable[TableFile]) -> Iterator[RunHead]:
    """What a canonical savepoint has, as it will be stored."""
    known: set[tuple[str, str, str, str]] = set()
    for file in tables:
        about = json.dumps(file.about, sort_keys=True)
        if (file.uid, file.state, about, file.schema) in known:
            continue
        known.add((file.uid, file.state, about, file.schema))
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(file.schema)))
        table = ExportedTable(file.uid, file.state, file.about, schema, ())
        yield RunHead(file.uid, file.state, file.about, imported_schema(table))


def check_declared(plan: JobPlan, blob: JobBlob, heads: Iterator[RunHead]) -> None:
    """Refuse a program whose operators keep something else than what is stored.

    Args:
        plan: the job.
        blob: the same as it travels to tasks.
        heads: what is stored; what cannot be read is left to the tasks that need it, which tell of it.

    Raises:
        StateMigrationError: naming the operator, its line, and what is different.
    """
    stored: dict[str, list[RunHead]] = defaultdict(list)
    try:
        for head in heads:
            stored[head.uid].append(head)
    except (StateCorruptedError, InfrastructureError, OSError) as error:
        logger.info("what is stored is not compared with the program before it runs: %s", error)
        return
    for planned in plan.operators():
        is_changed = planned.uid in plan.settings.changed_windows
        if planned.uid in stored and planned.state_kinds and not is_changed:
            _check(plan, blob, planned, stored[planned.uid])


def _check(plan: JobPlan, blob: JobBlob, planned: PlannedOperator, heads: Iterable[RunHead]) -> None:
    owner = StateOwner(planned.parallelism, planned.max_parallelism, planned.state_kinds)
    task = HashMapTaskStates(blob.state, planned.stage, 0, {planned.uid: owner})
    task.pretend(heads)
    context = operator_context(plan, planned, 0, task)
    operator = planned.create_operator(task_parameters(plan, blob, 0, KeptClients()))
    try:
        operator.take_up(context)
        for head in heads:
            _check_keys(planned, head)
    except StateMigrationError as error:
        raise cannot_go_on(context, error) from error


def _check_keys(planned: PlannedOperator, head: RunHead) -> None:
    """Of what functions declare only the keys are known."""
    if StateKind.KEYED in planned.state_kinds and head.store.startswith(STORE_PREFIX):
        label = f"{head.meta.get(KIND)} state {head.store.removeprefix(STORE_PREFIX)!r}"
        check_keys(head.meta, planned.key.codec.to_json(), label)
