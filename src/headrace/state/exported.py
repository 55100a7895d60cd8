"""``ExportedTable``: what a state backend holds of one state of one operator in one task, as all backends have it.

Tables hold what counts and nothing else: no tombstones, nothing that is over or has expired, no hashes. By its kind
(``about["kind"]``) a table has these columns:

===================================  ==================================================================================
``value, reducing, aggregating``     ``key``, ``namespace`` where the state is kept by it, ``value``, ``expiry``
``list``                             the same: a row for each element, those of a key in their order
``map``                              ``key``, ``namespace``, ``entry_key``, ``entry`` where the former is not the key of
                                     the entry as users know it, ``value``, ``expiry``: a row for each entry, those of a
                                     key in the order of insertion
``timers``                           ``time``, ``key``, ``namespace``
``elements``                         ``value``: a row for each element of a list of a subtask, in order
any other: a log of an operator      what the operator has put into it, without the hashes of keys
===================================  ==================================================================================

Keys (``key``, ``entry_key``) are in canonical form, namespaces as
:func:`~headrace.state.keyed.namespaces.ordered_bytes`
gives them, empty for none; a null ``expiry``, or no such column, means never. Broadcast maps are maps of the key 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

NAMESPACE: Final = "namespace"
"""The column of namespaces."""


@dataclass(frozen=True)
class ExportedTable:
    """One table.

    Attributes:
        uid: the operator.
        store: the state: ``state/<name>`` and ``namespaced/<name>`` for keyed states, ``timers/event`` and
            ``timers/processing``, ``list/<name>``, ``union/<name>``, ``broadcast/<name>``, else the name of a log.
        about: what has to be known of it, as JSON: its kind, and how keys and values are stored (``keys``, ``types``).
        schema: its columns.
        batches: its rows, to be gone through once.
        is_in_order: whether the rows are known to be in the order of runs, as all are that headrace's backends export.
    """

    uid: str
    store: str
    about: dict[str, Any]
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    is_in_order: bool = False

    def whole(self) -> pa.RecordBatch:
        """All rows in one piece; uses up ``batches``."""
        table = pa.Table.from_batches(self.batches, self.schema).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], self.schema)
