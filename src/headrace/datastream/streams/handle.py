"""Handles on operators, by which they are named and placed and asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from headrace.common.arguments import refused
from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.common.tracebacks import hides_engine_of_methods

if TYPE_CHECKING:
    from headrace.common.errors import HeadraceError
    from headrace.datastream.transformations import Transformations
    from headrace.graph.nodes import Node


@hides_engine_of_methods
class OperatorHandle:
    """Stands for an operator that was just added to the graph, so that it can be named and placed.

    Args:
        transformations: the operators of the environment.
    """

    def __init__(self, transformations: Transformations) -> None:
        self._transformations = transformations

    def name(self, name: str) -> Self:
        """Names the operator, for plans, logs and errors.

        Raises:
            InvalidProgramError: when this is not directly the output of an operator (but keyed, a union or a side
                output), or the name is empty.
        """
        self._update(name=checked_text("name", name))
        return self

    def uid(self, uid: str) -> Self:
        """Gives the operator an identity that lasts: its state is found by it when the program has changed.

        Raises:
            InvalidProgramError: as :meth:`name`; two operators with one uid are refused when the job is run.
        """
        self._update(uid=checked_text("uid", uid))
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets how many subtasks the operator has.

        Raises:
            InvalidProgramError: as :meth:`name`, or when the number is not between 1 and 32768.
        """
        self._update(parallelism=_subtasks("parallelism", parallelism))
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets how many key groups the operator's state has: the highest parallelism it can be rescaled to.

        It is fixed by the first run; the environment's number holds for operators that have none of their own.

        Raises:
            InvalidProgramError: as :meth:`set_parallelism`.
        """
        self._update(max_parallelism=_subtasks("max_parallelism", max_parallelism))
        return self

    def force_non_parallel(self) -> Self:
        """Has the operator run in one subtask, whatever the job's parallelism.

        Raises:
            InvalidProgramError: as :meth:`name`.
        """
        return self.set_parallelism(1).set_max_parallelism(1)

    def set_description(self, description: str) -> Self:
        """Gives the operator a longer text, for plans.

        Raises:
            InvalidProgramError: as :meth:`name`.
        """
        self._update(description=checked_text("description", description))
        return self

    def _repr_html_(self) -> str:
        """What notebooks show: all that comes before."""
        from headrace.datastream.notebook import stream_html

        return stream_html(type(self).__name__, self._facts(), self._transformations.graph, self._operator_ids())

    def _facts(self) -> dict[str, object]:
        """What there is to say about it beside its graph, by name."""
        raise NotImplementedError

    def _operator_ids(self) -> set[int]:
        """The operators that it stands for, or that its records come from."""
        raise NotImplementedError

    def _operator(self) -> Node:
        """The operator that this handle stands for.

        Raises:
            InvalidProgramError: when it stands for none.
        """
        raise NotImplementedError

    def _update(self, **changes: Any) -> None:
        self._transformations.graph.update(self._operator().id, **changes)


def not_an_operator(what: str) -> HeadraceError:
    """The error for settings of a stream that is not directly the output of an operator."""
    return refused(
        f"{what} is no operator, so it has no name, uid, parallelism and side outputs: set and get them on the stream "
        "that the operator itself gave"
    )


def checked_text(what: str, text: Any) -> str:
    """A name, a uid or the like.

    Raises:
        InvalidProgramError: when it is no string, or an empty one.
    """
    if not isinstance(text, str) or not text:
        raise refused(f"the {what} of an operator is a string that is not empty, not {text!r}")
    return text


def _subtasks(what: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= UPPER_BOUND_MAX_PARALLELISM:
        raise refused(f"{what} is a number from 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {number!r}")
    return number
