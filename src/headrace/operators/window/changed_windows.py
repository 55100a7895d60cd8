"""Windows that are declared otherwise than those whose contents are stored: what was stored is dropped, or moves.

Rows of ordered tables move from windows, or panes, into the new windows that consist of them. What old windows have
shown already stays shown, and does not move: each record is shown by the old windows or by the new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.errors import StateMigrationError
from headrace.common.logs import get_logger
from headrace.metrics.own_names import ROWS_DROPPED, ROWS_MOVED
from headrace.operators.window.lateness import passed_end
from headrace.operators.window.stores import PANE
from headrace.state.runs.merge_input import described, floor_of, rest_of
from headrace.windowing.changed_windows import ChangedWindows
from headrace.windowing.intervals import AlignedWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.operators.base import Operator, OperatorContext
    from headrace.state.runs import Run, RunStore
    from headrace.state.runs.merge_input import Combine
    from headrace.state.table_layout import TableLayout
    from headrace.windowing.intervals import RegularWindows

    Longs = npt.NDArray[np.int64]

logger = get_logger(__name__)

MERGING_WINDOWS: Final = "merging-window-set"
"""The state of keys that windows which merge are known by."""

_SHAPE: Final = ("size", "slide", "offset")


def are_of(windows: AlignedWindows, start: int, end: int) -> bool:
    """Whether a stretch of time is one of some windows."""
    return end - start == windows.size and (start - windows.offset) % windows.slide == 0


def drop_changed(context: OperatorContext, refused: StateMigrationError) -> None:
    """Drop what windows hold, with timers and the state of triggers; state that functions keep by key stays.

    Args:
        context: the operator.
        refused: why it could not go on with it.
    """
    rows = context.state.drop_windows(MERGING_WINDOWS)
    context.counted[ROWS_DROPPED] = context.counted.get(ROWS_DROPPED, 0) + rows
    logger.warning(
        "operator %r (uid %s): what windows held is dropped for good, as was asked for: %d rows (%s)",
        context.name,
        context.uid,
        rows,
        str(refused).partition("give ")[0].strip(":; "),
    )


@dataclass(frozen=True)
class WindowStateMigration:
    """The windows that what is stored moves into.

    Attributes:
        context: the operator.
        windows: the windows.
        kept_as: how what they hold is kept.
        rows_of: the windows, or panes, whose rows are kept.
        combine: makes one batch of the runs of such windows.
        regroup: makes the rows of a run of some rows in any order, of which earlier ones came earlier.
    """

    context: OperatorContext
    windows: RegularWindows
    kept_as: TableLayout
    rows_of: RegularWindows
    combine: Combine
    regroup: Callable[[pa.RecordBatch], pa.RecordBatch]

    def take_over(self, store: RunStore) -> None:
        """Move what windows of another shape have left in a store, where that was asked for.

        Raises:
            StateMigrationError: when the new windows do not consist of whole old ones.
        """
        if self.context.changed_windows is not ChangedWindows.REAGGREGATE:
            return
        runs = [self.kept_as.adapted(store, run) for run in store.runs]
        former = [run for run in runs if run is not None and _shape_of(run.meta) != _shape_of(self.kept_as.meta)]
        if not former:
            return
        stored = self.combine(former[0].meta, [rest_of(run, floor_of(run)) for run in former])
        moved = self._moved(former, stored)
        for run in former:
            store.drop(run)
        if moved.num_rows:
            whole = self.regroup(moved)
            store.append(whole, described(self.kept_as.meta, whole))
        self._tell(stored.num_rows, moved.num_rows)

    def _tell(self, before: int, moved: int) -> None:
        self.context.counted[ROWS_MOVED] = moved
        logger.warning(
            "operator %r (uid %s): what windows held moves into windows of another shape, as was asked for: "
            "%d rows become %d; what the old ones had shown stays behind",
            self.context.name,
            self.context.uid,
            before,
            moved,
        )

    def _moved(self, former: Sequence[Run], stored: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of runs that have not been shown, with the ends of the new windows, or panes."""
        meta = former[0].meta
        if not all(isinstance(meta.get(name), int) for name in _SHAPE):
            raise self._refused("what is stored is not of windows of one size at regular distances")
        windows = AlignedWindows(*(meta[name] for name in _SHAPE))
        self._check_union(windows, self._whole(windows, former))
        ends = stored.column(0).to_numpy()
        rows = np.flatnonzero(ends > self._last_shown(windows, is_pane=PANE in meta))
        stored, ends = stored.take(pa.array(rows)), ends[rows]
        self._check_open(windows, ends)
        pairs = self.rows_of.assign(ends - 1)
        return stored.take(pa.array(pairs.records)).set_column(0, stored.schema.field(0), pa.array(pairs.ends))

    def _whole(self, former: AlignedWindows, runs: Sequence[Run]) -> AlignedWindows:
        """The stretches of time that the rows of runs are of: panes, or windows that do not overlap."""
        pane = runs[0].meta.get(PANE)
        about = {name: value for name, value in self.kept_as.about.items() if name != PANE}
        about |= former.shape if pane is None else {**former.shape, PANE: pane}
        for run in runs:
            replace(self.kept_as, about=about).check(run)
        if pane is not None:
            return AlignedWindows(pane, pane, former.offset % pane)
        if former.size != former.slide:
            kind = "overlap, so a record is in several of them" if former.size > former.slide else "leave gaps"
            raise self._refused(f"the old windows {kind}")
        return former

    def _last_shown(self, former: AlignedWindows, *, is_pane: bool) -> int:
        """The last end of rows that only windows need which have fired."""
        fired = passed_end(self.context.watermark)
        return former.starts_of(former.first_ends(fired)) if is_pane else fired

    def _check_union(self, former: AlignedWindows, whole: AlignedWindows) -> None:
        new = self.windows
        if not isinstance(new, AlignedWindows):
            raise self._refused("the new windows are not of one size at regular distances")
        step = whole.size
        if new.size % step or new.slide % step or (new.offset - whole.offset) % step:
            raise self._refused(
                f"old windows of {former.size} ms every {former.slide} ms, shifted by {former.offset} ms, are kept in "
                f"pieces of {step} ms; new ones of {new.size} ms every {new.slide} ms, shifted by {new.offset} ms, "
                "would begin or end within such a piece, whose records cannot be told apart"
            )

    def _check_open(self, former: AlignedWindows, ends: Longs) -> None:
        """Refuse to lose what no window has shown, since all its new windows would have fired already."""
        fired = passed_end(self.context.watermark)
        pairs = self.windows.assign(ends - 1)
        is_open = np.zeros(len(ends), np.bool_)
        is_open[pairs.records[pairs.ends > fired]] = True
        is_in_any = np.zeros(len(ends), np.bool_)
        is_in_any[pairs.records] = True
        is_unshown = former.first_ends(ends - 1) > fired
        if (is_in_any & ~is_open & is_unshown).any():
            raise self._refused("what the old windows have not shown yet is of new windows that are over by now")

    def _refused(self, reason: str) -> StateMigrationError:
        return cannot_move(self.context, reason)


def cannot_move(context: OperatorContext, reason: str) -> StateMigrationError:
    """What windows hold does not fit into the new ones."""
    return StateMigrationError(
        f"what windows hold cannot move into windows of another shape: {reason}. Choose windows that consist of whole "
        f"old ones, or have it dropped (execution.state-recovery.changed-windows: {context.uid}=drop)"
    )


def count_dropped(operator: Operator, windows: int) -> None:
    """Count, and tell, how many windows of keys were dropped that keep what they hold as state of keys."""
    if windows:
        operator.count(ROWS_DROPPED, windows)
        logger.warning(
            "operator %r (uid %s): %d windows of another shape are dropped for good, as was asked for",
            operator.context.name,
            operator.context.uid,
            windows,
        )


def _shape_of(meta: dict[str, Any]) -> dict[str, Any]:
    return {name: meta.get(name) for name in (*_SHAPE, PANE)}
