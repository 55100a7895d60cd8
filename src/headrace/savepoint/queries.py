"""What one key has in a state, without reading those of other keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError, SavepointError
from headrace.common.typeinfo import Types
from headrace.state.backend import STATE_BACKENDS, StateOwner
from headrace.state.descriptors import StateDescriptor
from headrace.state.keyed.backend import STORE_PREFIX
from headrace.state.keys import KeyCodec
from headrace.state.keys.groups import partitions_of_hashes

if TYPE_CHECKING:
    from headrace.common.typeinfo import DeclaredType
    from headrace.savepoint.stored_job import StoredJob
    from headrace.state.protocols import OperatorStates
    from headrace.storage.folder import Folder


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
        SavepointError: when the job knows no such operator with state, nothing is stored under the name of the state,
            or there are none but tables.
        StateCorruptedError: when a file is missing.
    """
    if not isinstance(descriptor, StateDescriptor):
        raise InvalidProgramError(
            "expected the descriptor of a state, such as ValueStateDescriptor('total', Types.LONG()), got "
            f"{descriptor!r}"
        )
    descriptor = copy(descriptor)
    descriptor.advise("ask by the descriptor, and the type of keys, that the program has")
    place = _place_of(job, uid)
    codec = KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY() if key_type is None else Types.of(key_type))
    keys = codec.encode([key])
    (subtask,) = partitions_of_hashes(keys.hashes, place.owner.parallelism, place.owner.max_parallelism).tolist()
    with place.opened(subtask, codec) as states:
        if STORE_PREFIX + descriptor.name not in states.stored():
            place.check_stored(codec, descriptor)
        found = states.keyed.state(descriptor)
        (states.keyed.current,) = states.keyed.bind(keys)
        return _CONTENT[descriptor.kind](found)


@dataclass(frozen=True, slots=True)
class _OperatorPlace:
    """Where an operator has its state.

    Attributes:
        job: the job.
        uid: the operator.
        stage: its stage.
        owner: into what its keys are divided.
        state: where state files are.
    """

    job: StoredJob
    uid: str
    stage: int
    owner: StateOwner
    state: Folder

    @contextmanager
    def opened(self, subtask: int, codec: KeyCodec) -> Iterator[OperatorStates]:
        """What a subtask holds; only indexes are read."""
        refs = [ref for ref in self.job.versions() if (ref.stage, ref.partition) == (self.stage, subtask)]
        backend = STATE_BACKENDS.load(self.job.manifest.state_backend)
        task = backend.open(self.state, refs, self.stage, subtask, {self.uid: self.owner})
        try:
            states = task.operator(self.uid)
            states.bind_key_codec(codec)
            states.begin_epoch(0, self.job.manifest.processing_time)
            yield states
        finally:
            task.close()

    def check_stored(self, codec: KeyCodec, descriptor: StateDescriptor) -> None:
        """Refuse a state of which no subtask holds anything, or not with such keys and types."""
        known: set[str] = set()
        for subtask in range(self.owner.parallelism):
            with self.opened(subtask, codec) as states:
                stored = states.stored()
                if STORE_PREFIX + descriptor.name in stored:
                    states.keyed.state(descriptor)
                    return
                known.update(name.removeprefix(STORE_PREFIX) for name in stored if name.startswith(STORE_PREFIX))
        raise SavepointError(
            f"{self.job.location} holds nothing under the name {descriptor.name!r} of the operator with uid "
            f"{self.uid!r}: its states of keys that hold something are {', '.join(sorted(known)) or 'none'}"
        )


def _place_of(job: StoredJob, uid: str) -> _OperatorPlace:
    if job.state is None:
        raise SavepointError(
            f"{job.location} is a canonical savepoint: it is read as a whole; use read_keyed_state(), or ask the "
            "checkpoint directory of a job"
        )
    stage = _stage_of(job, uid)
    operator = job.manifest.stages[stage].operators[uid]
    owner = StateOwner(operator.parallelism, operator.max_parallelism, operator.state_kinds)
    return _OperatorPlace(job, uid, stage, owner, job.state)


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
