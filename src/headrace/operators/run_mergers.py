"""Registers the mergers of the runs of all operators in a process, for the state of programs that it does not have.

Processes that merge runs without the job that has written them import this: compaction in a process of its own, and
readers of checkpoints from outside. The modules below call ``register_merger``, or ``register_ordered_merger``, when
they are imported.
"""

import headrace.operators.aggregates.collected
import headrace.operators.aggregates.distinct
import headrace.operators.aggregates.simple
import headrace.operators.aggregates.sums
import headrace.operators.aggregates.user_defined
import headrace.operators.changelog.pending_rows
import headrace.operators.changelog.rows_of_keys
import headrace.operators.group_aggregate
import headrace.operators.join.bounded_join
import headrace.operators.join.find_pairs
import headrace.operators.join.outer_pairs
import headrace.operators.join.regular.stored_rows
import headrace.operators.pattern.stored_matches
import headrace.operators.waiting
import headrace.operators.window.columnar.windows_by_end
import headrace.operators.window.columnar.windows_by_key
import headrace.operators.window.general.ordered_contents  # noqa: F401
