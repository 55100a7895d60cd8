"""The operator chains of a process: kept from one epoch to the next, and made anew where one must not go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from headrace.runtime.task.operator_chain import OperatorChain

if TYPE_CHECKING:
    from headrace.runtime.task.messages import EpochContext, JobBlob

    Task = tuple[int, int]
    """A stage, and a task of it."""


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

    Args:
        blob: the job.
        keeps: whether chains are kept; else every epoch has new ones.
    """

    def __init__(self, blob: JobBlob, *, keeps: bool) -> None:
        self._blob = blob
        self._keeps = keeps
        self._chains: dict[Task, tuple[OperatorChain, _Mark]] = {}

    def take(self, stage: int, partition: int, context: EpochContext) -> OperatorChain:
        """The chain that can go on with an epoch of a task, or a new one."""
        self._close_stale(context)
        start = context.partitions.get((stage, partition))
        chain, mark = self._chains.pop((stage, partition), (None, None))
        if chain is not None:
            if mark == _Mark.before(context) and chain.stands_at(start):
                return chain
            chain.drop()
        return OperatorChain(self._blob, context.job_id, context.generation, stage, partition, start)

    def put_back(self, chain: OperatorChain, context: EpochContext) -> None:
        """Takes back a chain that has done an epoch; it is closed when there is nothing more for it to do."""
        if self._keeps and not context.is_last:
            self._chains[chain.stage.index, chain.partition] = (chain, _Mark.of(context))
        else:
            chain.close()

    def close(self) -> None:
        """Close them all; nobody waits for them any more."""
        chains, self._chains = self._chains, {}
        for chain, _ in chains.values():
            chain.drop()

    def _close_stale(self, context: EpochContext) -> None:
        """Close what did neither this epoch nor the one before: its task has moved to another process since."""
        current = (_Mark.before(context), _Mark.of(context))
        for task in [task for task, (_, mark) in self._chains.items() if mark not in current]:
            self._chains.pop(task)[0].drop()
