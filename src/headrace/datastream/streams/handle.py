"""Handles on operators, by which they are named and placed and asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from headrace.common.arguments import is_unicode, refused
from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.datastream.execution_config import ExecutionConfig
from headrace.state.renamed_fields import RenamedFields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.errors import HeadraceError
    from headrace.datastream.transformations import Transformations
    from headrace.graph.nodes import Node


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
        """Sets how many subtasks the operator has; ``ExecutionConfig.PARALLELISM_DEFAULT`` for as many as others.

        Raises:
            InvalidProgramError: as :meth:`name`, or when the number is not between 1 and 32768.
        """
        is_default = parallelism == ExecutionConfig.PARALLELISM_DEFAULT
        self._update(parallelism=None if is_default else _subtasks("parallelism", parallelism))
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

    def set_renamed_fields(self, renamed: Mapping[str, str]) -> Self:
        """Says which fields of the records that the operator keeps have other names than in what is stored.

        That is what windows hold (elements, what ``reduce`` and an ``AggregateFunction`` have made of them, fields that
        built-in aggregates look at), what rolling aggregates have of each key, what joins keep, and what waits for
        event time. States of functions have :meth:`StateDescriptor.set_renamed_fields`. Once a job has gone on from
        what an earlier version had stored, this may stay in the program, or go. PyFlink has no such method.

        Args:
            renamed: new names by old ones. A field of an inner record is given by its path in the stored type, as in
                ``{"address.zip": "postcode"}``. Paths begin with ``left.`` and ``right.`` where two streams are joined,
                with ``first.`` and ``second.`` where connected ones wait for event time, and with ``result.`` for what
                windows have shown and may take back.

        Raises:
            InvalidProgramError: as :meth:`name`; and when the operator keeps no records, or those that it keeps have no
                field of a new name.

        Examples:
            >>> from headrace.common import Types
            >>> from headrace.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([("tea", 3)], Types.ROW_NAMED(["item", "price"], [str, int]))
            >>> dearest = orders.key_by("item").max_by("price").uid("dearest").set_renamed_fields({"amount": "price"})
        """
        node, given = self._operator(), RenamedFields.given(renamed)
        kept = node.spec.kept_records(self._transformations.graph.input_schemas(node))
        if not kept:
            raise refused(
                f"operator {node.name!r} keeps no records by itself: call set_renamed_fields() on the descriptors of "
                "the states that its functions have"
            )
        unfit = given.unfit(kept)
        if unfit:
            raise refused(f"the fields that operator {node.name!r} keeps: {'; '.join(unfit)}")
        self._update(renamed_fields=given)
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
        InvalidProgramError: when it is no string, or an empty one, or no text.
    """
    if not isinstance(text, str) or not text:
        raise refused(f"the {what} of an operator is a string that is not empty, not {text!r}")
    if not is_unicode(text):
        raise refused(f"the {what} of an operator is text that UTF-8 can write, not {text!r}")
    return text


def _subtasks(what: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= UPPER_BOUND_MAX_PARALLELISM:
        raise refused(f"{what} is a number from 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {number!r}")
    return number
