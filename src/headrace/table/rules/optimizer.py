"""The order in which rules are applied."""

from collections.abc import Callable

from headrace.table.logical.relations import Relation, Scan
from headrace.table.rules.columns import pruned
from headrace.table.rules.empty import with_empty_inputs
from headrace.table.rules.estimates import Estimates
from headrace.table.rules.group_windows import with_group_windows
from headrace.table.rules.join_order import with_join_order
from headrace.table.rules.joins import with_columns_of_keys, with_one_of_equals
from headrace.table.rules.known_columns import with_filtered_columns, with_known_columns
from headrace.table.rules.normalize import with_normalized_sources
from headrace.table.rules.over import with_calls_merged, with_over_aggregates
from headrace.table.rules.purpose import PlanPurpose
from headrace.table.rules.push_down import with_common_filters_below, with_filters_below, with_sorts_below
from headrace.table.rules.rank import with_ranks
from headrace.table.rules.set_operations import with_simple_unions
from headrace.table.rules.shown_names import with_shown_names
from headrace.table.rules.simplify import with_constants, with_tests_of_operands
from headrace.table.rules.subqueries import with_joins_for_subqueries
from headrace.table.rules.temporal import with_temporal_joins
from headrace.table.rules.unique_groups import with_constants_above_groups, with_unique_groups


def optimized(
    relation: Relation,
    is_upsert: Callable[[Scan], bool],
    time_zone: str,
    purpose: PlanPurpose,
    estimates: Estimates | None = None,
) -> Relation:
    """Applies all rules.

    Args:
        relation: the logical plan of a statement.
        is_upsert: whether a table's source gives upserts, which have to be normalized.
        time_zone: the session time zone.
        purpose: what the plan is for.
        estimates: estimates by which inner joins are put in order; None to leave them in theirs.
    """
    relation = with_joins_for_subqueries(with_temporal_joins(with_one_of_equals(relation)))
    relation = with_simple_unions(with_normalized_sources(relation, is_upsert))
    relation = with_constants_above_groups(with_constants(with_unique_groups(relation, purpose), time_zone))
    if purpose.is_shown:
        relation = with_filtered_columns(relation)
    relation = with_tests_of_operands(with_filters_below(with_empty_inputs(relation)))
    relation = with_common_filters_below(relation)
    relation = with_columns_of_keys(relation if estimates is None else with_join_order(relation, estimates))
    if purpose.is_shown:
        relation = with_shown_names(with_known_columns(relation))
        relation = relation if purpose.is_batch else with_calls_merged(relation)
    over = with_over_aggregates(pruned(relation, purpose=purpose), purpose)
    ranked = with_sorts_below(with_ranks(with_filters_below(over), purpose))
    return with_group_windows(pruned(ranked, purpose=purpose, through_watermarks=False))
