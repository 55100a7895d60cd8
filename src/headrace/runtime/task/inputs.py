"""How far the inputs of an operator have come, and how they hold one another back.

Where a stream branches and comes together again, both branches bring the same records, one branch after the other for
each batch. As long as the branches have the same watermarks, a record's own stamp tells what its sibling had met. But
where one branch has made watermarks of its own, a record that is late in the faster branch is on time at the union as
long as the slower branch has not come so far *at that record*. What the slower branch reaches later in the same batch
must not count, so for such branches only what they had reached before the batch does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.graph.specs import TimestampsSpec

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from headrace.common.batch import Batch
    from headrace.plan.job_plan import PlannedOperator, Stage

EXCHANGE: Final = -1
"""Stands for all exchanged edges of an operator together: the receiver has merged them."""


class Inputs:
    """The inputs of one operator, as far as they are not idle.

    Args:
        origins: by input, what its watermarks were made by; those that are not named have the same.
    """

    def __init__(self, origins: Mapping[int, Hashable] | None = None) -> None:
        self._origins = origins or {}
        self._reached: dict[int, int] = {}
        self._before: dict[Hashable, int] = {}

    def begin(self, reached: Mapping[int, int]) -> None:
        """Start of an epoch, or of a piece of a split: every input has come so far."""
        self._reached = dict(reached)
        self._before.clear()
        self.begin_round()

    def begin_round(self) -> None:
        """The next batch sets out, which will come by all branches."""
        for source, watermark in self._reached.items():
            # Inputs of one origin go in step: the furthest tells, another may have had nothing to bring.
            origin = self._origins.get(source)
            self._before[origin] = max(watermark, self._before.get(origin, watermark))

    @property
    def are_of_several_origins(self) -> bool:
        """Whether :meth:`begin_round` matters."""
        return len(set(self._origins.values())) > 1

    def __contains__(self, source: int) -> bool:
        return source in self._reached

    def advance(self, source: int, watermark: int) -> None:
        """One input has come so far; an idle one has no say."""
        if source in self._reached:
            self._reached[source] = max(watermark, self._reached[source])

    def slowest(self) -> int:
        """What all have reached."""
        return min(self._reached.values())

    def limit(self, source: int) -> int | None:
        """The watermark that records of ``source`` may not exceed when inputs come one after the other.

        Of several origins it is the same for a whole round: what the first branch brings must not move event time for
        the second one. None where an input is alone.
        """
        if len(self._before) > 1:
            return min(self._before.values())
        return min((reached for key, reached in self._reached.items() if key != source), default=None)

    def limit_of_other_origins(self, source: int) -> int | None:
        """The watermark that records of ``source`` may not exceed when they are merged by watermark with the others."""
        mine = self._origins.get(source)
        return min((reached for origin, reached in self._before.items() if origin != mine), default=None)


class Siblings:
    """Edges that leave a task for one operator behind a shuffle, with watermarks of several origins.

    The receiver merges by watermark, so the stamps have to say already how far the siblings have come.

    Args:
        edges: by edge, the operator that it leaves.
        origins: by edge, what its watermarks were made by.
    """

    def __init__(self, edges: Mapping[int, int], origins: Mapping[int, Hashable]) -> None:
        self.edges = edges
        self.inputs = Inputs(origins)

    def begin(self, reached: Mapping[int, int]) -> None:
        """Start of an epoch, or of a piece of a split.

        Args:
            reached: by operator, the watermark that it has passed on; those that get nothing of the piece are left out.
        """
        self.inputs.begin({edge: reached[node] for edge, node in self.edges.items() if node in reached})

    def hold_back(self, edge: int, batch: Batch) -> Batch:
        """The same records under the watermark that the siblings have reached."""
        limit = self.inputs.limit_of_other_origins(edge)
        self.inputs.advance(edge, int(batch.watermarks[-1]))
        return batch if limit is None else batch.with_watermarks(np.minimum(batch.watermarks, limit))


class Origins:
    """What the watermarks of each edge of a stage were made by: the operators nearest before it that make any.

    Args:
        stage: the stage.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._of_node: dict[int, frozenset[int]] = {}
        for planned in stage.operators:
            self._of_node[planned.node.id] = self._origin_of(planned)

    def of_inputs(self, planned: PlannedOperator) -> dict[int, Hashable]:
        """By input of an operator; empty unless they differ."""
        chained = {edge.id: self._of_node[edge.source] for edge in planned.inputs if not edge.is_exchange}
        is_exchanged = len(chained) < len(planned.inputs)
        return _if_several({**chained, **({EXCHANGE: _MERGED} if is_exchanged else {})})

    def siblings(self) -> Iterator[Siblings]:
        """The edges into each operator behind a shuffle where they are of several origins."""
        targets: dict[int, dict[int, int]] = {}
        for planned in self._stage.operators:
            for edge in planned.outputs:
                if edge.is_exchange:
                    targets.setdefault(edge.target, {})[edge.id] = planned.node.id
        for edges in targets.values():
            if origins := _if_several({edge: self._of_node[node] for edge, node in edges.items()}):
                yield Siblings(edges, origins)

    def _origin_of(self, planned: PlannedOperator) -> frozenset[int]:
        if isinstance(planned.node.spec, TimestampsSpec) or not planned.inputs:
            return frozenset({planned.node.id})
        return frozenset().union(
            *(_MERGED if edge.is_exchange else self._of_node[edge.source] for edge in planned.inputs)
        )


_MERGED: Final = frozenset({EXCHANGE})
"""What comes through a shuffle has one origin, whatever it is: the receiver has merged it."""


def _if_several(origins: dict[int, Hashable]) -> dict[int, Hashable]:
    return origins if len(set(origins.values())) > 1 else {}
