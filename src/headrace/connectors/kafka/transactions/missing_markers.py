"""Markers that are lost: what counts as published then, which somebody has to have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class MissingMarker(Enum):
    """What a ``KafkaSink`` does when Kafka has lost the mark that says which epoch was published last.

    Examples:
        >>> from headrace.datastream.connectors.kafka import MissingMarker
        >>> [choice.name for choice in MissingMarker]
        ['FAIL', 'PUBLISH']
    """

    FAIL = "fail"
    """Stop the job, and say so, until ``set_published_up_to`` tells: messages could be there twice, or be lost."""

    PUBLISH = "publish"
    """Publish what waits: its messages may be there twice."""


@dataclass(frozen=True, slots=True)
class WithoutMarker:
    """What the user has said about epochs whose marker is lost.

    Attributes:
        otherwise: what to do where nothing was said.
        published_up_to: up to which epoch messages are there, by transactional id; under None, of all other ids.
    """

    otherwise: MissingMarker = MissingMarker.FAIL
    published_up_to: Mapping[str | None, int] = field(default_factory=dict)

    def last_published(self, transactional_id: str, epoch: int, waiting: Sequence[int]) -> int | None:
        """The epoch that counts as published last under an id, whose marker is gone.

        What was said is about the epochs that waited then. It answers for no others: a marker that is lost a second
        time would not be missed.

        Args:
            transactional_id: the id.
            epoch: the epoch that is to be published.
            waiting: those that waited when the job was started.

        Returns:
            None when nobody knows.
        """
        said = self._said_of(transactional_id)
        if said is not None and epoch in waiting and waiting[0] - 1 <= said <= waiting[-1]:
            return said
        return epoch - 1 if self.otherwise is MissingMarker.PUBLISH else None

    def advice(self, transactional_id: str, epoch: int, waiting: Sequence[int]) -> str:
        """What to do when nobody knows; arguments as for :meth:`last_published`."""
        if epoch not in waiting:
            return "Start the job again: it says then which epochs wait, and what to do"
        said = self._said_of(transactional_id)
        beside = "" if said is None else f" set_published_up_to({said}) is about epochs before these."
        return (
            f"These epochs wait: {', '.join(map(str, waiting))}.{beside} Look which of their messages are there; then "
            f"say which epoch is the last one that is, set_published_up_to({waiting[-1]}) if all of them are and "
            f"set_published_up_to({waiting[0] - 1}) if none is; or have what waits be published, perhaps again, with "
            "set_missing_marker(MissingMarker.PUBLISH)"
        )

    def _said_of(self, transactional_id: str) -> int | None:
        return self.published_up_to.get(transactional_id, self.published_up_to.get(None))
