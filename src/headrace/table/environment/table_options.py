"""The keys of Flink's settings for tables: which there are, and which of them have an effect."""

from __future__ import annotations

import difflib
from typing import Final

from headrace.common.call_site import warn_caller
from headrace.common.errors import ConfigurationError

IN_EFFECT: Final = frozenset(
    {
        "table.local-time-zone",
        "table.exec.emit.allow-lateness",
        "table.exec.emit.early-fire.delay",
        "table.exec.emit.early-fire.enabled",
        "table.exec.emit.late-fire.delay",
        "table.exec.emit.late-fire.enabled",
        "table.exec.mini-batch.allow-latency",
        "table.exec.mini-batch.enabled",
        "table.exec.mini-batch.size",
        "table.exec.sink.not-null-enforcer",
        "table.exec.sink.require-on-conflict",
        "table.exec.sink.type-length-enforcer",
        "table.exec.sink.upsert-materialize",
        "table.exec.state.ttl",
        "table.dml-sync",
        "sql-client.execution.result-mode",
        "sql-client.execution.max-table-result.rows",
    }
)
"""Keys that change what is done."""

_OPTIMIZER: Final = (
    "agg-phase-strategy distinct-agg.split.bucket-num distinct-agg.split.enabled dynamic-filtering.enabled "
    "incremental-agg-enabled join.broadcast-threshold join.null-filter-threshold join-reorder-enabled "
    "multi-join.enabled multiple-input-enabled non-deterministic-update.strategy "
    "reuse-optimize-block-with-digest-enabled "
    "reuse-sink-enabled reuse-source-enabled reuse-sub-plan-enabled source.predicate-pushdown-enabled "
    "source.report-statistics-enabled union-all-as-breakpoint-enabled delta-join.strategy"
)
_EXECUTION: Final = (
    "async-lookup.buffer-capacity async-lookup.key-ordered-enabled async-lookup.output-mode async-lookup.timeout "
    "async-state.enabled deduplicate.insert-update-after-sensitive-enabled "
    "deduplicate.mini-batch.compact-changes-enabled disabled-operators interval-join.min-cleanup-interval "
    "legacy-cast-behaviour local-hash-agg.adaptive.enabled operator-fusion-codegen.enabled rank.topn-cache-size "
    "resource.default-parallelism resource.external-buffer-memory resource.hash-agg.memory resource.hash-join.memory "
    "resource.sort.memory shuffle-mode simplify-operator-name-enabled sink.keyed-shuffle "
    "sink.nested-constraint-enforcer "
    "sink.rowtime-inserter sort.default-limit sort.max-num-file-handles sort.non-temporal.enabled "
    "source.cdc-events-duplicate source.idle-timeout spill-compression.block-size spill-compression.enabled "
    "uid.format uid.generation unbounded-over.version window-agg.buffer-size-limit"
)
_OTHERS: Final = (
    "builtin-catalog-name builtin-database-name catalog-store.kind column-expansion-strategy "
    "dynamic-table-options.enabled generated-code.max-length legacy-nested-row-nullability module.default "
    "plan.compile.catalog-objects plan.force-recompile plan.restore.catalog-objects resources.download-dir "
    "rtas-ctas.atomicity-enabled sql-dialect"
)

WITHOUT_EFFECT: Final = frozenset(
    {
        *(f"table.optimizer.{name}" for name in _OPTIMIZER.split()),
        *(f"table.exec.{name}" for name in _EXECUTION.split()),
        *(f"table.{name}" for name in _OTHERS.split()),
        "table.display.max-column-width",
        "sql-client.display.color-schema",
        "sql-client.display.max-column-width",
        "sql-client.display.print-time-cost",
        "sql-client.display.show-line-numbers",
        "sql-client.prompt",
        "sql-client.verbose",
    }
)
"""Keys of Flink that are taken, and change nothing: most of them tell its planner, or its memory, what to do."""

_CHANGE_RESULTS: Final = frozenset(
    {
        "table.exec.disabled-operators",
        "table.exec.legacy-cast-behaviour",
        "table.exec.resource.default-parallelism",
        "table.exec.sort.non-temporal.enabled",
        "table.exec.source.cdc-events-duplicate",
        "table.exec.source.idle-timeout",
        "table.dynamic-table-options.enabled",
    }
)
"""Those of them with which Flink's results, or when they come, would be others."""

PREFIXES: Final = ("table.", "sql-client.")
"""How the keys of tables begin."""


def check_key(key: str) -> None:
    """Refuse a key that begins as those of tables do, and is none of them.

    Raises:
        ConfigurationError: with the keys that are like it.
    """
    if key in _CHANGE_RESULTS:
        warn_caller(f"{key} has no effect")
    if not key.startswith(PREFIXES) or key in IN_EFFECT or key in WITHOUT_EFFECT:
        return
    known = sorted(IN_EFFECT | WITHOUT_EFFECT)
    close = difflib.get_close_matches(key, known, n=3, cutoff=0.6)
    told = f"did you mean {' or '.join(close)}?" if close else "docs/sql.md lists those that have an effect"
    raise ConfigurationError(f"{key} is no setting of tables: {told}")
