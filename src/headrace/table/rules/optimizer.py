"""The order in which rules are applied."""

from collections.abc import Callable

from headrace.table.logical.relations import Relation, Scan
from headrace.table.rules.columns import pruned
from headrace.table.rules.filters import with_filters_below
from headrace.table.rules.group_windows import with_group_windows
from headrace.table.rules.normalize import with_normalized_sources
from headrace.table.rules.over import with_over_aggregates
from headrace.table.rules.rank import with_ranks
from headrace.table.rules.set_operations import with_simple_unions


def optimized(relation: Relation, is_upsert: Callable[[Scan], bool]) -> Relation:
    """The same rows, computed with less.

    Args:
        relation: what a statement means.
        is_upsert: whether a table gives upserts, of which a changelog has to be made.
    """
    relation = with_filters_below(with_simple_unions(with_normalized_sources(relation, is_upsert)))
    ranked = with_ranks(with_filters_below(with_over_aggregates(pruned(relation))))
    return with_group_windows(pruned(ranked, through_watermarks=False))
