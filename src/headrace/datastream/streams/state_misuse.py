"""State of keys where there are none, and of types that do not exist: told when the program is built, with the line."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from headrace.common.typeinfo.types import Types, no_such_type
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


def check_types_exist(spec: OperatorSpec) -> None:
    """Refuse functions whose ``open`` uses what :class:`Types` does not have, or does not call what it has.

    Raises:
        InvalidProgramError: with the line of the method.
    """
    for function in objects_of(spec.functions):
        method = source_of(function, "open", Types.__name__, parameters=1)
        if method is None or method.function.__globals__.get(Types.__name__) is not Types:
            continue
        nodes = [node for statement in method.body for node in ast.walk(statement)]
        arguments = {argument for node in nodes if isinstance(node, ast.Call) for argument in node.args}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == Types.__name__:
                if (text := no_such_type(node.attr)) is not None:
                    raise method.refused(node, text)
                if node in arguments:
                    raise method.refused(node, f"Types.{node.attr} is a function: write Types.{node.attr}()")
