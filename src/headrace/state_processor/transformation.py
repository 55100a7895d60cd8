"""``StateTransformation``: what the state of an operator is made of in a savepoint that is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration
    from headrace.savepoint.metadata import TableFile
    from headrace.state.kinds import StateKinds
    from headrace.state_processor.manifest_edits import OperatorPlace
    from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where the state of an operator is written.

    Attributes:
        savepoint: the directory of the savepoint.
        place: the operator in it.
        configuration: how jobs are run for it.
    """

    savepoint: Folder
    place: OperatorPlace
    configuration: Configuration


class WrittenState(NamedTuple):
    """The state of an operator, as it was written.

    Attributes:
        tables: its files.
        epochs: how many epochs it took to make it: records that windows hold are numbered by them.
    """

    tables: list[TableFile]
    epochs: int = 0


class StateTransformation(ABC):
    """What the state of an operator is made of: what :class:`OperatorTransformation` gives.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.state_processor import OperatorTransformation, StateTransformation
        >>> isinstance(OperatorTransformation.from_tables(Types.STRING()), StateTransformation)
        True
    """

    @property
    @abstractmethod
    def state_kinds(self) -> StateKinds:
        """The kinds of state that the operator has then."""

    @property
    def parallelism(self) -> int:
        """Into how many files the state of keys goes, unless a configuration says it."""
        return 1

    @abstractmethod
    def write(self, target: WriteTarget) -> WrittenState:
        """Write it into a savepoint.

        Raises:
            SavepointError: when something of it cannot be such state.
        """
