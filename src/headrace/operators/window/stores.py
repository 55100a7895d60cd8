"""Under which names windows keep what they hold in state, how it is laid out, and who may begin with what is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import StateMigrationError
from headrace.metrics.own_names import ROWS_DROPPED
from headrace.operators.base import cannot_go_on
from headrace.state.keyed.backend import NAMESPACED_PREFIX, STORE_PREFIX
from headrace.state.renamed_fields import NOTHING_RENAMED
from headrace.state.table_layout import TableLayout
from headrace.state.timers import NO_TIMER
from headrace.windowing.changed_windows import ChangedWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.keys import KeyCodec
    from headrace.state.renamed_fields import RenamedFields
    from headrace.windowing.intervals import RegularWindows

ACCUMULATORS_KIND: Final = "window-partials"
"""The kind of runs that hold accumulators: those of a key and window are merged."""
VALUES_KIND: Final = "window-values"
"""The kind of runs that hold folded values: the newest of a key and window counts."""
ELEMENTS_KIND: Final = "window-elements"
"""The kind of runs that hold all elements."""
PANE: Final = "pane"
"""What runs say about themselves when their rows are those of panes: the length of one."""

STORE: Final = "windows"
"""The store of an operator that ordered tables of windows are in."""
LEFT_STORE: Final = "windows-of-left-records"
"""The store of an operator with two inputs that the table of its left one is in."""
RIGHT_STORE: Final = "windows-of-right-records"
"""The store that the table of its right one is in."""
SESSIONS_STORE: Final = "sessions"
"""The store that open sessions are in."""

CLOCK_STORE: Final = "windows-of-the-clock"
"""The store of windows of processing time."""

GLOBAL_STORE: Final = "global-windows"
"""The store of windows that have no end."""

COUNT_STORE: Final = "count-windows"
"""The store of windows of so many records."""
CONTINUOUS_STORE: Final = "continuous-windows"
"""The store of windows that fire at intervals before their end."""

DUE_SUFFIX: Final = "-due"
"""What the name of a store ends with that says when something is due for the windows of another one."""

RESULT: Final = "result"
"""What paths to fields of results begin with, where windows keep what they have shown."""

CONTENTS: Final = "window-contents"
"""The state of key and window that all others keep what they hold in."""

NONE_CONTENTS: Final = "window-contents-none"
"""The state that says of a window whether the one value that it holds is None."""

SHOWN: Final = "shown-results"
"""The state of key and window that they keep what they have shown in, where they take it back."""

OF_TRIGGERS: Final = "trigger/"
"""What the names of the states of triggers begin with."""

_KEYED_CONTENTS: Final = {f"{NAMESPACED_PREFIX}{name}" for name in (CONTENTS, NONE_CONTENTS)}
"""The stores of these."""

_KINDS: Final = {
    STORE: "fire at their ends alone",
    LEFT_STORE: "hold the records of two streams, and fire at their ends alone",
    RIGHT_STORE: "hold the records of two streams, and fire at their ends alone",
    CLOCK_STORE: "are of processing time, computed column by column",
    GLOBAL_STORE: "have no end, computed column by column",
    **dict.fromkeys((SESSIONS_STORE, SESSIONS_STORE + DUE_SUFFIX), "are sessions, computed column by column"),
    **dict.fromkeys((COUNT_STORE, COUNT_STORE + DUE_SUFFIX), "are of a count, computed column by column"),
    **dict.fromkeys(
        (CONTINUOUS_STORE, CONTINUOUS_STORE + DUE_SUFFIX),
        "fire at intervals before their end, computed column by column",
    ),
}
"""What windows are of which something is in a store; all others keep what they hold as state of keys."""

_OF_THEIR_OWN: Final = "have a trigger, assigner or evictor of their own"

ADVICE: Final = (
    "give it another uid, or restore the old declaration; to drop what they hold for good, or move it, set "
    "execution.state-recovery.changed-windows (headrace run --changed-windows)"
)


def is_of_operator(name: str) -> bool:
    """Whether a state of key and window is none of a function, which is known by its name."""
    return name in (CONTENTS, NONE_CONTENTS, SHOWN) or name.startswith(OF_TRIGGERS)


def check_has_no_tables(context: OperatorContext) -> None:
    """Refuse what is stored, for windows that are looked at before their ends, or take back what they show.

    Raises:
        StateMigrationError: when windows that are computed column by column, or fire at their ends alone, stored it.
    """
    _check(context, lambda name: name not in _KINDS, "have another trigger, assigner, evictor or accumulation mode")


def check_has_only(context: OperatorContext, *stores: str) -> None:
    """Refuse what is stored by windows of another kind, for windows that are computed column by column.

    Args:
        context: the operator.
        stores: the stores that they keep it in.

    Raises:
        StateMigrationError: when windows of another kind have stored something.
    """
    _drop_states_of_functions(context, stores)
    _check(context, lambda name: name in stores, _KINDS[stores[0]])


def _drop_states_of_functions(context: OperatorContext, stores: Collection[str]) -> None:
    """Where old windows are dropped, also what their functions and assigners kept by key: here are none any more."""
    others = [name for name in context.state.stored() if name not in stores]
    is_asked_for = context.changed_windows is ChangedWindows.DROP
    if is_asked_for and others and all(name.startswith(STORE_PREFIX) for name in others):
        rows = context.state.drop_windows(*(name.removeprefix(STORE_PREFIX) for name in others))
        context.counted[ROWS_DROPPED] = context.counted.get(ROWS_DROPPED, 0) + rows


def _check(context: OperatorContext, is_own: Callable[[str], bool], declared: str) -> None:
    for name in context.state.stored():
        if not is_own(name):
            raise _of_others(_KINDS.get(name, _OF_THEIR_OWN), declared)


def check_has_tables_of(context: OperatorContext, *stores: str) -> None:
    """Refuse what is stored elsewhere, for windows that fire at their ends alone; states of functions may be there.

    Args:
        context: the operator.
        stores: the stores that they keep it in.

    Raises:
        StateMigrationError: when windows of another kind have stored something.
    """
    for name in context.state.stored():
        if name in _KEYED_CONTENTS or (name in _KINDS and name not in stores):
            raise _of_others(_KINDS.get(name, _OF_THEIR_OWN), _KINDS[stores[0]])


def check_has_no_timers(context: OperatorContext) -> None:
    """Refuse timers, of which such windows have none either; they are there only when an epoch begins.

    Raises:
        StateMigrationError: when others have left some.
    """
    if context.state.timers.event.next_due != NO_TIMER:
        error = _of_others(_OF_THEIR_OWN, "fire at their ends alone")
        raise cannot_go_on(context, error)  # as where one is opened


def _of_others(stored: str, declared: str) -> StateMigrationError:
    return StateMigrationError(f"there is state of windows that {stored}, and now they {declared}: {ADVICE}")


def contents_layout(
    kind: str,
    schema: pa.Schema,
    codec: KeyCodec,
    windows: RegularWindows,
    values: TypeInformation | None = None,
    renamed: RenamedFields = NOTHING_RENAMED,
    **about: Any,
) -> TableLayout:
    """How windows keep what they hold.

    Args:
        kind: the kind of runs.
        schema: the columns: the end of a window, the hash and the key, then what it holds.
        codec: how keys are stored.
        windows: the windows; what those of another shape hold must not be mixed with it.
        values: the type of what they hold, where values of an earlier type may become those of this one.
        renamed: which fields of these values have other names than in what is stored.
        about: what has to be the same besides.
    """
    about = {"keys": codec.to_json(), **windows.shape, **about}
    return TableLayout("the contents of windows", kind, schema, 3, about, _WORDS, values, ADVICE, renamed=renamed)


def accumulators_layout(layout: ColumnarWindowLayout, windows: RegularWindows, **about: Any) -> TableLayout:
    """How the accumulators of windows are kept; ``about`` is what has to be the same besides."""
    about = {"parts": layout.aggregators.to_json(), **about}
    kept_as = contents_layout(ACCUMULATORS_KIND, layout.state_schema, layout.codec, windows, **about)
    return replace(kept_as, named_now=layout.named_now)


_WORDS: Final = {
    "kind": "kind of contents",
    "keys": "key type",
    "size": "size in milliseconds",
    "slide": "slide in milliseconds (that of tumbling windows is their size)",
    "offset": "offset in milliseconds",
    PANE: "length of panes in milliseconds",
    "parts": "set of aggregates",
    "types": "type of contents",
}
