"""One of the clusters that a source reads, as the driver sees it: it may be away without holding up the others."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from headrace.common.errors import HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.connectors.kafka.dynamic.background import BackgroundCall
from headrace.connectors.partitions.enumerator import PartitionEnumerator
from headrace.connectors.source import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.connectors.partitions.enumerator import ReadingPlan
    from headrace.connectors.partitions.log import PartitionedLog
    from headrace.connectors.source import Json, ReadBudget, SplitRead

PATIENCE_SECONDS: Final = 3.0
"""How long an epoch waits for a cluster, or for a metadata service; then it goes on without, until it has answered."""

THRESHOLD: Final = "stream-metadata-discovery-failure-threshold"

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
        self._look: BackgroundCall[Sequence[str] | None] | None = None
        self._splits: Sequence[str] = ()
        self._is_known = False
        self._is_late = False
        self._failures = 0

    @property
    def splits(self) -> Sequence[str]:
        """The partitions that are known by now."""
        return self._splits

    def begin_to_look(self, now: int) -> None:
        """Begin to look what there is, unless that is under way."""
        if self._look is None:
            self._look = BackgroundCall(lambda: self._found(now), f"look at {self._name}")

    def end_looking(self) -> None:
        """Wait for what was begun, but not for long, and not again if it was late before.

        Raises:
            InfrastructureError: when the cluster has failed once too often.
            HeadraceError: when something is wrong that does not pass.
        """
        look = self._look
        if look is None:
            return
        self._is_late = not look.is_over(0.0 if self._is_late else PATIENCE_SECONDS)
        if self._is_late:
            return
        self._look = None
        try:
            found = look.result()
        except (InfrastructureError, OSError) as error:
            self._fail(error)
        except HeadraceError as error:
            raise type(error)(f"cluster {self._name}: {error}") from error
        else:
            self._failures = 0
            self._is_known = True
            if found is not None:
                self._splits = found
                self._state = copy.deepcopy(self._enumerator.snapshot())

    def initial_position(self, split_id: str) -> Json:
        """As that of an enumerator."""
        return self._enumerator.initial_position(split_id)

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        """As that of an enumerator."""
        return self._enumerator.plan(split_id, position, budget, now) if self._look is None else None

    def is_finished(self, split_id: str, position: Json) -> bool:
        """As that of an enumerator."""
        return self._look is None and self._enumerator.is_finished(split_id, position)

    def is_complete(self) -> bool:
        """As that of an enumerator; it is not before the first look."""
        return self._is_known and self._enumerator.is_complete()

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        """As that of an enumerator."""
        return self._enumerator.pending(split_id, position, now) if self._look is None else Pending()

    def snapshot(self) -> Json | None:
        """What has to be known after a restart, as the last look has left it; None before the first one."""
        return self._state

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        """As that of an enumerator; while the cluster does not answer nobody tells it how far the job is."""
        if self._look is None:
            self._enumerator.checkpoint_completed(positions)

    def close(self) -> None:
        """Let go of connections; those that are in use, later."""
        if self._look is None:
            self._enumerator.close()
        else:
            self._look.then(self._enumerator.close)

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
        self._failures += 1
        told = f"cluster {self._name} has failed {self._failures} times in a row: {error}"
        if self._failures > self._threshold:
            raise InfrastructureError(f"{told} ({THRESHOLD!r} is {self._threshold})") from error
        logger.warning("%s; others are read meanwhile, %d failures in a row are let pass", told, self._threshold)
