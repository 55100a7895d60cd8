"""What an environment was asked for, job after job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.common.errors import InvalidProgramError
from headrace.datastream.caches import Caches
from headrace.graph.stream_graph import StreamGraph

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.graph.nodes import Edge, Node
    from headrace.graph.specs import OperatorSpec


class WhenStarted(Protocol):
    """Is called when a job was started."""

    def __call__(self, client: JobClient, *, is_awaited: bool) -> None:
        """The job runs; the program may wait for its end before it does anything else."""


class Transformations:
    """The operators of all jobs of an environment, and which of them the next job is for.

    As in Flink, ``execute()`` takes what was asked for since the last one, together with all that comes before it. So a
    stream made for one job can go on in the next, which then reads its source again.

    Attributes:
        graph: every operator that was ever asked for.
        caches: what jobs have left of streams for later ones.
    """

    def __init__(self) -> None:
        self.graph = StreamGraph()
        self.caches = Caches()
        self._pending: set[int] = set()
        self._when_started: list[WhenStarted] = []
        self._starting: list[WhenStarted] = []

    def add_source(self, spec: OperatorSpec, name: str, inputs: tuple[Edge, ...] = ()) -> Node:
        """Add a source, or a part of one: it belongs to a job only when something reads from it."""
        return self.graph.add(spec, name, inputs)

    def add(self, spec: OperatorSpec, name: str, inputs: tuple[Edge, ...]) -> Node:
        """Add an operator that is no source."""
        node = self.graph.add(spec, name, inputs)
        self._pending.add(node.id)
        return node

    @property
    def pending(self) -> int:
        """How many operators were asked for since the last job; sources do not count."""
        return len(self._pending)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for since the last job."""
        return not self._pending

    def next_job(self) -> StreamGraph:
        """The graph of the next job.

        Raises:
            InvalidProgramError: when nothing was asked for since the last job.
        """
        if self.is_empty:
            raise InvalidProgramError(
                "the job has no operators: nothing was built since the last execute(); end a stream in print() or "
                "sink_to(), then call execute()"
            )
        return self.caches.applied(self.graph.subgraph(self._pending), self._pending)

    def when_started(self, call: WhenStarted) -> None:
        """Have the next job call something when it was started."""
        self._when_started.append(call)

    def take_next_job(self) -> StreamGraph:
        """As :meth:`next_job`; the one after it begins anew."""
        job, self._starting = self.next_job(), self._when_started
        self._when_started = []
        self._pending.clear()
        return job

    def started(self, client: JobClient, *, is_awaited: bool) -> None:
        """The job that was taken last runs.

        Args:
            client: the job.
            is_awaited: whether the program waits for its end.
        """
        self.caches.filled_by(client)
        starting, self._starting = self._starting, []
        for call in starting:
            call(client, is_awaited=is_awaited)

    def discard(self) -> None:
        """Forget what the next job would have been."""
        self._pending.clear()
        self._when_started.clear()
