"""One of the clusters that a source reads, as the driver sees it: it may be away without holding up the others."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from headrace.common.errors import HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.connectors.kafka.dynamic.background import RepeatedCalls
from headrace.connectors.kafka.dynamic.options import THRESHOLD
from headrace.connectors.partitions.enumerator import PartitionEnumerator
from headrace.connectors.source import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.connectors.partitions.enumerator import ReadingPlan
    from headrace.connectors.partitions.partitioned_log import PartitionedLog
    from headrace.connectors.source import Json, ReadBudget, SplitRead

logger = get_logger(__name__)


class ClusterReading:
    """A cluster and its partitions, which are looked at by a thread of their own.

    Of what a look under way may change nothing is read: until it is over, the cluster has nothing new.

    Args:
        name: what errors call it: its id, and where it is.
        log: the cluster.
        plan: what is read of it.
        state: what :meth:`snapshot` gave, or None at the first start.
        threshold: how often in a row it may fail.
        is_active: whether it is still to be read, asked when it fails.
    """

    def __init__(
        self,
        name: str,
        log: PartitionedLog,
        plan: ReadingPlan,
        state: Json | None,
        threshold: int,
        is_active: Callable[[], bool],
    ) -> None:
        self._name = name
        self._threshold = threshold
        self._is_active = is_active
        self._enumerator = PartitionEnumerator(log, plan, copy.deepcopy(state))
        self._state = state
        self._looks: RepeatedCalls[Sequence[str] | None] = RepeatedCalls(f"look at {name}")
        self._splits: Sequence[str] = ()
        self._is_known = False

    @property
    def splits(self) -> Sequence[str]:
        """The partitions that are known by now."""
        return self._splits

    def begin_to_look(self, now: int) -> None:
        """Begin to look what there is, unless that is under way."""
        self._looks.begin(lambda: self._found(now))

    def end_looking(self) -> None:
        """Wait for what was begun, but not for long, and not again if it was late before.

        Raises:
            InfrastructureError: when the cluster has failed once too often.
            HeadraceError: when something is wrong that does not pass.
        """
        if not self._looks.has_answer():
            return
        try:
            found = self._looks.take()
        except (InfrastructureError, OSError) as error:
            self._fail(error)
        except HeadraceError as error:
            raise type(error)(f"cluster {self._name}: {error}") from error
        else:
            self._is_known = True
            if found is not None:
                self._splits = found
                self._state = copy.deepcopy(self._enumerator.snapshot())

    def initial_position(self, split_id: str) -> Json:
        """As that of an enumerator."""
        return self._enumerator.initial_position(split_id)

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        """As that of an enumerator."""
        return self._enumerator.plan(split_id, position, budget, now) if self._is_at_rest else None

    def is_finished(self, split_id: str, position: Json) -> bool:
        """As that of an enumerator."""
        return self._is_at_rest and self._enumerator.is_finished(split_id, position)

    def is_complete(self) -> bool:
        """As that of an enumerator; it is not before the first look."""
        return self._is_known and self._enumerator.is_complete()

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        """As that of an enumerator."""
        return self._enumerator.pending(split_id, position, now) if self._is_at_rest else Pending()

    def snapshot(self) -> Json | None:
        """What has to be known after a restart, as the last look has left it; None before the first one."""
        return self._state

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        """As that of an enumerator; while the cluster does not answer nobody tells it how far the job is."""
        if self._is_at_rest:
            self._enumerator.checkpoint_completed(positions)

    def close(self) -> None:
        """Let go of connections; those that are in use, later."""
        self._looks.then(self._enumerator.close)

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing changes what is known."""
        return not self._looks.is_under_way

    def _found(self, now: int) -> Sequence[str] | None:
        """The partitions; None when the cluster has failed and is not to be read any more anyway."""
        try:
            return self._enumerator.discover(now)
        except (HeadraceError, OSError) as error:
            if self._is_active():
                raise
            logger.info("cluster %s is not active any more, and not asked: %s", self._name, error)
            return None

    def _fail(self, error: Exception) -> None:
        told = f"cluster {self._name} {self._looks.failed()} ({THRESHOLD!r} is {self._threshold})"
        if self._looks.failures > self._threshold:
            raise InfrastructureError(f"{told if self._threshold else f'cluster {self._name}'}: {error}") from error
        logger.warning("%s, and others are read meanwhile: %s", told, error)
