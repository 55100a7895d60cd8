"""State of keys where there are none: told when the program is built, with the line, where the source shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.datastream.streams.method_source import source_of
from headrace.operators.functions import NO_KEYED_STATE, STATE_GETTERS, objects_of
from headrace.state.kinds import StateKind

if TYPE_CHECKING:
    from headrace.graph.specs import OperatorSpec

_ASKING: Final = (*(("open", getter) for getter in STATE_GETTERS), ("initialize_state", "get_keyed_state_store"))
"""The methods that are called once, before the first record, and what they may ask for there."""


def check_asks_for_no_state_of_keys(spec: OperatorSpec, text: str = NO_KEYED_STATE) -> None:
    """Refuse functions that are sure to ask for state of keys, for an operator without any.

    Args:
        spec: the operator.
        text: what is wrong about it, and what to do.

    Raises:
        InvalidProgramError: with the line of the method.
    """
    if StateKind.KEYED in spec.state_kinds:
        return
    for function in objects_of(spec.functions):
        for name, getter in _ASKING:
            if (method := source_of(function, name, getter, parameters=1)) is not None:
                for node in method.evaluated():
                    if method.is_asked(node, getter):
                        raise method.refused(node, f"{getter}: {text}")
