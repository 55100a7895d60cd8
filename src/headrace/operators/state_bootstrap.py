"""A function of the user that makes the state of keys, for a job that begins with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.operators.keyed_process import KeyedProcessOperator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.operators.timer_service import TimeDomain
    from headrace.state.timers import Timer


class StateBootstrapOperator(KeyedProcessOperator):
    """Calls a method for each record. Timers stay: they fire in the job that begins with them."""

    def _fire(self, domain: TimeDomain, due: Iterable[Timer], watermark: int) -> None:
        """Nothing: what is due is not asked for, and so is still there."""
