"""Instances that a process keeps from one epoch to the next, and when it must not go on with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from headrace.runtime.task.messages import EpochContext, PartitionContext
    from headrace.runtime.task.operator_chain import OperatorChain

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
    """

    def __init__(self) -> None:
        self._chains: dict[Task, tuple[OperatorChain, _Mark]] = {}

    def take(self, task: Task, context: EpochContext, start: PartitionContext | None) -> OperatorChain | None:
        """The chain that can go on with an epoch; None when a new one has to be made.

        Args:
            task: which task.
            context: the epoch.
            start: the state that it begins with; None where there is none.
        """
        self._close_stale(context)
        chain, mark = self._chains.pop(task, (None, None))
        if chain is None or (mark == _Mark.before(context) and chain.stands_at(start)):
            return chain
        chain.drop()
        return None

    def keep(self, task: Task, context: EpochContext, chain: OperatorChain) -> None:
        """Keep a chain that has done an epoch."""
        self._chains[task] = (chain, _Mark.of(context))

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
