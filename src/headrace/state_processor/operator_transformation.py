"""``OperatorTransformation``: where the state of an operator in a savepoint may come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.state_processor.state_tables import StateTables

if TYPE_CHECKING:
    from headrace.common.typeinfo import DeclaredType


class OperatorTransformation:
    """Begins the description of an operator's state, for :meth:`SavepointWriter.with_operator`.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = ListStateDescriptor("words", Types.STRING())
        >>> tables = OperatorTransformation.from_tables(Types.LONG())
        >>> tables = tables.with_state(words, [{"key": 1, "value": "tea"}, {"key": 1, "value": "cake"}])
    """

    @staticmethod
    def from_tables(key_type: DeclaredType[Any] | None = None) -> StateTables:
        """State from tables, each with the rows of one state.

        Args:
            key_type: the type of keys that the program gives to ``key_by``; any object when left out.
        """
        return StateTables(key_type)
