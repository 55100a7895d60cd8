"""Batches of a result's rows, as they come from its job."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.common.batch import Kinds


@dataclass(frozen=True, slots=True)
class ResultChanges:
    """Some rows of a result.

    Attributes:
        columns: the rows.
        kinds: their kinds, as values of ``RowKind``; None where all are insertions.
    """

    columns: pa.RecordBatch
    kinds: Kinds | None = None
