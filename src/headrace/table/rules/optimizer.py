"""The order in which rules are applied."""

from headrace.table.logical.relations import Relation
from headrace.table.rules.columns import pruned
from headrace.table.rules.over import with_over_aggregates
from headrace.table.rules.rank import with_ranks
from headrace.table.rules.set_operations import with_distinct_unions


def optimized(relation: Relation) -> Relation:
    """The same rows, computed with less."""
    relation = pruned(with_distinct_unions(relation))
    return pruned(with_ranks(with_over_aggregates(relation)), through_watermarks=False)
