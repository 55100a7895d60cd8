"""What one key has in a state, without reading those of other keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError, SavepointError
from headrace.common.typeinfo import Types
from headrace.state.backend import STATE_BACKENDS, StateOwner
from headrace.state.descriptors import StateDescriptor
from headrace.state.keys import KeyCodec
from headrace.state.keys.groups import partitions_of_hashes

if TYPE_CHECKING:
    from headrace.common.typeinfo import DeclaredType
    from headrace.savepoint.stored_job import StoredJob


def query(
    job: StoredJob, uid: str, descriptor: StateDescriptor, key: Any, key_type: DeclaredType[Any] | None = None
) -> Any:
    """What the state gives for a key: a value (None where there is none), a list, a dict.

    Args:
        job: the job, with state files.
        uid: the operator.
        descriptor: the state, as the program declares it.
        key: the key.
        key_type: the type of keys that the program gives to ``key_by``; any object when left out.

    Raises:
        InvalidProgramError: when it is no descriptor.
        StateMigrationError: when the state was stored with another type, or with other keys.
        SavepointError: when the job knows no such operator with state, or has none but tables.
        StateCorruptedError: when a file is missing.
    """
    if not isinstance(descriptor, StateDescriptor):
        raise InvalidProgramError(
            "expected the descriptor of a state, such as ValueStateDescriptor('total', Types.LONG()), got "
            f"{descriptor!r}"
        )
    if job.state is None:
        raise SavepointError(
            f"{job.location} is a canonical savepoint: it is read as a whole; use read_keyed_state(), or ask the "
            "checkpoint directory of a job"
        )
    stage = _stage_of(job, uid)
    operator = job.manifest.stages[stage].operators[uid]
    codec = KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY() if key_type is None else Types.of(key_type))
    keys = codec.encode([key])
    (subtask,) = partitions_of_hashes(keys.hashes, operator.parallelism, operator.max_parallelism).tolist()
    refs = [ref for ref in job.versions() if ref.partition == subtask and ref.stage == stage]
    owner = StateOwner(operator.parallelism, operator.max_parallelism, operator.state_kinds)
    backend = STATE_BACKENDS.load(job.manifest.state_backend)
    task = backend.open(job.state, refs, stage, subtask, {uid: owner})
    try:
        states = task.operator(uid)
        states.bind_key_codec(codec)
        states.begin_epoch(0, job.manifest.processing_time)
        keyed = states.keyed
        found = keyed.state(descriptor)
        (keyed.current,) = keyed.bind(keys)
        return _CONTENT[descriptor.kind](found)
    finally:
        task.close()


def _stage_of(job: StoredJob, uid: str) -> int:
    known = {
        each: stage
        for stage, snapshot in enumerate(job.manifest.stages)
        for each, operator in snapshot.operators.items()
        if operator.state_kinds
    }
    if uid not in known:
        raise SavepointError(
            f"{job.location} holds no state of an operator with uid {uid!r}: operators with state are "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    return known[uid]


def _items(state: Any) -> dict[Any, Any]:
    return dict(state.items())


_CONTENT: Final[dict[str, Callable[[Any], Any]]] = {
    "value": lambda state: state.value(),
    "list": lambda state: list(state.get()),
    "map": _items,
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
}
