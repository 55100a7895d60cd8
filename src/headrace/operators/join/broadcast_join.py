"""``BroadcastJoinOperator``: joins records with rows that every task has whole, so that nothing has to be shuffled."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.common.batch import Batch
from headrace.operators.join.bounded_rows import Surroundings
from headrace.operators.join.matching import Matching, MatchingTable
from headrace.operators.stateless import ExpressionOperator


class BroadcastJoinOperator(ExpressionOperator):
    """Emits the results of each batch at once.

    Args:
        matching: the join.
        storage_options: how object stores are reached.
    """

    def __init__(self, matching: Matching, storage_options: Mapping[str, str]) -> None:
        super().__init__(matching.definition.condition)
        self._matching, self._storage_options = matching, storage_options
        self._table: MatchingTable | None = None

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        if self._table is None:
            self._table = self._matching.table(Surroundings(self.context, self._storage_options))
        kind = self._matching.definition.output_type
        for given, columns in self._table.matched(batch.columns):
            self.output.emit(batch.replaced(kind, columns=columns, sources=given))

    def close(self) -> None:
        self._table = None
        super().close()
