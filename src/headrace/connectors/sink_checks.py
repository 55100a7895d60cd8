"""Checks of what the sinks of users return, before anything relies on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.common.errors import InvalidProgramError, InvalidTypeError, refused, with_article
from headrace.common.output_tag import OutputTag
from headrace.connectors.sink import (
    Committer,
    DeliveryGuarantee,
    PreCommit,
    PreCommitted,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
    as_json,
)

_PROPERTIES: Final[Mapping[str, tuple[type, ...]]] = {
    "delivery_guarantee": (DeliveryGuarantee,),
    "dead_letter": (OutputTag, type(None)),
    "pre_commit": (PreCommit, type(None)),
    "is_durable": (bool,),
    "takes_watermarks": (bool,),
    "writer_state_type": (),
}
"""The properties of a sink, and the classes that their values may have; none where others check that."""


def check_properties(sink: Sink) -> None:
    """Refuse a sink whose properties are methods, which would all be true, or give something else.

    Raises:
        InvalidTypeError: naming the property, and the program's line.
    """
    for name, kinds in _PROPERTIES.items():
        if not hasattr(type(sink), name):
            continue
        value = getattr(sink, name)
        where = f"{type(sink).__name__}.{name}"
        if callable(value) and getattr(value, "__self__", None) is sink:
            raise refused(f"{where} is a method: write @property above it", InvalidTypeError)
        if kinds and not isinstance(value, kinds):
            raise refused(f"{where} is {value!r:.200}: have it be {with_article(kinds[0])}", InvalidTypeError)


def _gave(giver: object, method: str, given: object, wanted: str) -> InvalidProgramError:
    """The error about what a method of a sink, a writer or a pre-commit has returned."""
    return InvalidProgramError(f"{type(giver).__name__}.{method}() gave {given!r:.200}: return {wanted}")


def checked_writer(sink: Sink, method: str, writer: Any) -> SinkWriter:
    """Check the writer that a method of a sink has created.

    Raises:
        InvalidProgramError: when it is no writer, or one whose state would be kept nowhere, or one without state.
    """
    name = type(sink).__name__
    if not isinstance(writer, SinkWriter):
        raise _gave(sink, method, writer, "a SinkWriter")
    is_stateful, is_kept = isinstance(writer, StatefulSinkWriter), isinstance(sink, SupportsWriterState)
    if is_kept and not is_stateful:
        raise InvalidProgramError(
            f"{name} supports writer state, but its writer, a {type(writer).__name__}, is no StatefulSinkWriter: "
            "extend that, or do not extend SupportsWriterState"
        )
    if is_stateful and not is_kept:
        raise InvalidProgramError(
            f"the writer of {name}, a {type(writer).__name__}, is a StatefulSinkWriter, but {name} does not extend "
            "SupportsWriterState: extend it, or what the writer keeps is lost whenever the job restarts"
        )
    return writer


def checked_committer(sink: Sink, committer: Any) -> Committer | None:
    """Check the committer that a sink has created.

    Raises:
        InvalidProgramError: when it is no committer.
    """
    if committer is None or isinstance(committer, Committer):
        return committer
    raise _gave(sink, "create_committer", committer, "a Committer, or None")


def checked_list(giver: object, method: str, given: Any, of: str) -> list[Any]:
    """Check a method's list.

    Raises:
        InvalidProgramError: when that is something else, as text is, whose characters it would be.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise _gave(giver, method, given, f"a list of {of}, [] for none")
    return list(given)


def checked_time(giver: object, method: str, given: Any) -> int | None:
    """A time in milliseconds that a method gives, or None.

    Raises:
        InvalidProgramError: when it is something else.
    """
    if given is None or isinstance(given, int):
        return given
    raise _gave(giver, method, given, "milliseconds, or None")


def checked_pre_committed(pre_commit: PreCommit, given: Any, *, is_last: bool) -> PreCommitted:
    """Check the decision of a pre-commit; gives it as it comes back from a checkpoint.

    Raises:
        InvalidProgramError: when it is something else, or holds back what no later epoch would give out.
    """
    if not isinstance(given, PreCommitted):
        raise _gave(pre_commit, "prepare", given, "a PreCommitted(ready, in_progress)")
    if is_last and given.in_progress:
        raise InvalidProgramError(
            f"{type(pre_commit).__name__}.prepare() holds back {given.in_progress!r:.200} in the last epoch of the "
            "job, so it would be lost: where is_last is true, give everything as ready, and None as in_progress"
        )
    ready = tuple(map(as_json, checked_list(pre_commit, "prepare", given.ready, "what is ready")))
    return PreCommitted(ready, None if given.in_progress is None else as_json(given.in_progress))
