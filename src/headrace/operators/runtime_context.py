"""``RuntimeContext``: what a user function learns in ``open`` about where it runs, and where it gets its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.state.interfaces import KeyedStateStore

if TYPE_CHECKING:
    from headrace.operators.base import OperatorContext
    from headrace.state.descriptors import StateDescriptor


class RuntimeContext(KeyedStateStore):
    """Handed to ``open``; names as in PyFlink."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_task_name(self) -> str:
        """The operator's name."""
        return self._context.name

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with the number of the subtask, from 1: ``name (1/4)``."""
        return f"{self._context.name} ({self._context.subtask + 1}/{self._context.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        """How many parallel instances there are."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """How many key groups there are."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Which instance this is, from 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """Always 0: an attempt must not be able to tell that it is not the first, or its output could differ."""
        return 0

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A value of the job's configuration."""
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> NoReturn:
        """There are no metrics of one's own yet.

        Raises:
            UnsupportedOperationError: always, saying what to do instead.
        """
        raise UnsupportedOperationError(
            f"get_metrics_group in operator {self._context.name!r} ({self._context.call_site}) is not supported: emit "
            "what is counted as records, to a side output, say"
        )

    def _state(self, descriptor: StateDescriptor, method: str) -> Any:
        if self._context.state is None:
            raise InvalidProgramError(
                f"{method} in operator {self._context.name!r} ({self._context.call_site}): keyed state exists only "
                "after key_by(...)"
            )
        return self._context.state.keyed.state(descriptor)
