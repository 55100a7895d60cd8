"""The operator chains of a process: kept from one epoch to the next, and made anew where one must not go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from headrace.connectors.source import KeptClients
from headrace.runtime.task.operator_chain import OperatorChain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.operators.base import ProcessLocalCache
    from headrace.runtime.task.messages import EpochContext, SerializedJob

    Task = tuple[int, int]
    """A stage, and a task of it."""

_MOST_LEARNT_BYTES: Final = 128 << 20
"""So much is kept at most of what operators have learnt whose tasks have moved to another process."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Which epoch a chain has done."""

    job_id: str
    generation: int
    epoch: int

    @classmethod
    def of(cls, context: EpochContext) -> Self:
        return cls(context.job_id, context.generation, context.epoch)

    @classmethod
    def before(cls, context: EpochContext) -> Self:
        return cls(context.job_id, context.generation, context.previous)


class ChainCache:
    """The chains of one process, each with the epoch that it did last.

    An epoch is known by its number, yet it may have been run more than once: what a task here did may be superseded by
    what the same task did elsewhere, and functions need not be deterministic. So a chain has to hold the very state
    that the next epoch begins with.

    Connections of readers and writers outlast their chains, but not the generation: what comes after a failure has its
    own. What operators have learnt outlasts their chains, as it changes no result: tasks of one machine change places
    between its processes again and again. Of a chain that has failed it is dropped, since it may be in disorder.

    Args:
        blob: the job.
        keeps: whether chains are kept; else every epoch has new ones.
    """

    def __init__(self, blob: SerializedJob, *, keeps: bool) -> None:
        self._blob = blob
        self._keeps = keeps
        self._chains: dict[Task, tuple[OperatorChain, _Mark]] = {}
        self._taken: set[OperatorChain] = set()
        self._learnt: dict[Task, dict[str, dict[str, ProcessLocalCache]]] = {}
        self._clients = KeptClients()
        self._clients_of: tuple[str, int] | None = None

    def take(self, stage: int, partition: int, context: EpochContext) -> OperatorChain:
        """The chain that can go on with an epoch of a task, or a new one, which is to be opened."""
        self._close_stale(context)
        self._close_clients_unless_of((context.job_id, context.generation))
        start = context.partitions.get((stage, partition))
        chain, mark = self._chains.pop((stage, partition), (None, None))
        if chain is not None:
            if mark == _Mark.before(context) and chain.stands_at(start):
                self._taken.add(chain)
                return chain
            self._retire((stage, partition), chain)
        learnt = self._learnt.pop((stage, partition), {})
        chain = OperatorChain(self._blob, context, stage, partition, learnt, self._clients)
        self._taken.add(chain)
        return chain

    def put_back(self, chain: OperatorChain, context: EpochContext) -> None:
        """Takes back a chain that has done an epoch; it is closed when there is nothing more for it to do."""
        if self._keeps and not context.is_last:
            self._chains[chain.stage.index, chain.partition] = (chain, _Mark.of(context))
        else:
            chain.close()
        self._taken.discard(chain)
        if context.is_last:
            self._clients.close()

    def drop(self, chain: OperatorChain) -> None:
        """Close a chain that has not done its epoch."""
        chain.drop()
        self._taken.discard(chain)

    def drop_taken(self) -> None:
        """The same with all whose tasks were interrupted."""
        for chain in tuple(self._taken):
            self.drop(chain)

    def close(self) -> None:
        """Close them all; nobody waits for them any more."""
        chains, self._chains = self._chains, {}
        for chain, _ in chains.values():
            chain.drop()
        self._clients.close()

    def _close_clients_unless_of(self, run: tuple[str, int]) -> None:
        """Begin without connections where another run of the job has begun: what those may still do is not its own."""
        if self._clients_of != run:
            self._clients.close()
            self._clients_of = run

    def _close_stale(self, context: EpochContext) -> None:
        """Close what did neither this epoch nor the one before: its task has moved to another process since."""
        current = (_Mark.before(context), _Mark.of(context))
        for task in [task for task, (_, mark) in self._chains.items() if mark not in current]:
            self._retire(task, self._chains.pop(task)[0])

    def _retire(self, task: Task, chain: OperatorChain) -> None:
        """Drop a chain that has done its epoch; what it has learnt stays, as long as that is not too much."""
        chain.drop()
        self._learnt[task] = chain.learnt
        while sum(map(_size_of, self._learnt.values())) > _MOST_LEARNT_BYTES:
            del self._learnt[next(iter(self._learnt))]


def _size_of(learnt: Mapping[str, Mapping[str, ProcessLocalCache]]) -> int:
    return sum(each.nbytes for of_operator in learnt.values() for each in of_operator.values())
