"""``TableLayout``: what a table of an operator holds, and whether runs that were stored can be those of the table.

Timers, windows, joins and records that wait keep such tables in logs of runs: in the order of time
(:mod:`headrace.state.sorted_table`), or by key (:mod:`headrace.state.key_sorted_table`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.common.errors import StateMigrationError
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation, type_from_json
from headrace.state.evolution import (
    NOTHING_RENAMED,
    OTHER_UID,
    Incompatible,
    RenamedFields,
    difference,
    difference_of_columns,
    evolution,
    evolve_run,
    rewrite_run,
)
from headrace.state.runs import SORT, Run, RunStore
from headrace.state.runs.layout import KIND, TYPES, VALUE

logger = get_logger(__name__)


@dataclass(frozen=True)
class TableLayout:
    """What a table holds.

    Attributes:
        what: what it is called in errors: ``"timers"``.
        kind: the kind of its runs, by which compaction knows how to merge them.
        schema: the columns: those of the order first, which begins with time, hash and key, or with hash and key.
        order: how many columns the order has; rows that are equal in them are combined in a table in the order of time.
        about: what its runs say about themselves besides, which has to be the same as long as there are any.
        words: what the entries of ``about`` are called in errors.
        values: the type of the column of values, where values of an earlier type may become those of this one.
        advice: what to do when something else is stored.
        column: the column of values.
        renamed: which fields of the values have other names than in what is stored.
        named_now: gives what a run says about itself, with the names of today; columns stay in their places.
    """

    what: str
    kind: str
    schema: pa.Schema
    order: int
    about: Mapping[str, Any]
    words: Mapping[str, str] = field(default_factory=dict)
    values: TypeInformation | None = None
    advice: str = OTHER_UID
    column: str = VALUE
    renamed: RenamedFields = NOTHING_RENAMED
    named_now: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    @property
    def meta(self) -> dict[str, Any]:
        """What a run says about itself, whatever its rows are."""
        types = {} if self.values is None else {TYPES: self.values.to_json()}
        return {KIND: self.kind, SORT: self.schema.names[: self.order], **self.about, **types}

    def take_over(self, store: RunStore) -> None:
        """Checks the runs of a store, and rewrites those with values of an earlier type, or with earlier names.

        Raises:
            StateMigrationError: when they hold something else.
        """
        for run in store.runs:
            left = self.adapted(store, run)
            if left is not None:
                self.check(left)

    def adapted(self, store: RunStore, run: Run) -> Run | None:
        """The run with values of the declared type, under the names of today; what it says besides may be another one.

        Returns:
            None when no row of it counts, so that it was dropped.

        Raises:
            StateMigrationError: when the values cannot be taken over.
        """
        evolved = self._evolved(store, run)
        return None if evolved is None else self._renamed(store, evolved)

    def _renamed(self, store: RunStore, run: Run) -> Run | None:
        about = run.meta if self.named_now is None else self.named_now(run.meta)
        # Only these: the rows that are written may be fewer, and what is over of them is another part.
        others = {entry: said for entry, said in about.items() if said != run.meta.get(entry)}
        if not others or run.section.schema.types != self.schema.types:
            return run
        logger.info("%s: what was stored has the names of today", self.what)
        return rewrite_run(store, run, lambda batch: batch.rename_columns(self.schema.names), others)

    def _evolved(self, store: RunStore, run: Run) -> Run | None:
        stored = run.meta.get(TYPES)
        if self.values is None or stored is None or stored == self.values.to_json():
            return run
        try:
            change = evolution(type_from_json(stored), self.values, self.renamed)
        except Incompatible as error:
            problem = f"{self._differs(TYPES, stored, self.values.to_json())} ({error})"
            raise self._other(problem) from error
        logger.info("%s: what was stored becomes what is declared: %s", self.what, change)
        return evolve_run(store, run, change, self.values.to_json(), self.column)

    def _differs(self, entry: str, stored: object, declared: object) -> str:
        return f"another {self.words.get(entry, entry)}: {difference(stored, declared)}"

    def check(self, run: Run) -> None:
        """Return whether a run can be one of this table.

        Raises:
            StateMigrationError: when it holds something else.
        """
        for entry, declared in self.meta.items():
            stored = run.meta.get(entry, declared)
            if stored != declared:
                raise self._other(self._differs(entry, stored, declared))
        if not run.section.schema.equals(self.schema):
            raise self._other(f"other columns: {difference_of_columns(run.section.schema, self.schema)}")

    def _other(self, difference: str) -> StateMigrationError:
        return StateMigrationError(f"{self.what} were stored with {difference}; {self.advice}")
