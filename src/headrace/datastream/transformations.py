"""The operators that an environment was asked for, job after job, and the outputs that it keeps for later jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headrace.common.errors import InvalidProgramError
from headrace.common.job_status import JobStatus
from headrace.connectors.driver_sink import CachedSource, CacheFiles, DriverSink
from headrace.graph.partitioning import HASH, ForwardByKey
from headrace.graph.specs import OperatorSpec, SinkSpec, SourceSpec
from headrace.graph.stream_graph import Edge, Node, StreamGraph

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient


@dataclass(eq=False, slots=True)
class StreamCache:
    """The records that are kept of one output.

    Attributes:
        output: the edge that it is read by.
        files: the records; None as long as no job has made all of them.
    """

    output: Edge
    files: CacheFiles | None = None

    @property
    def uid(self) -> str:
        """The uid of the operators that fill it and read it; they have no state."""
        return f"cache-{self.output.source}-{self.output.side_output or ''}"

    def feeds(self, edge: Edge) -> bool:
        """Return whether the records of an edge are those that are kept."""
        return (edge.source, edge.side_output) == (self.output.source, self.output.side_output)


class Caches:
    """The caches of an environment, by the output that they keep."""

    def __init__(self) -> None:
        self._caches: dict[tuple[int, str | None], StreamCache] = {}
        self._begun: list[tuple[StreamCache, CacheFiles]] = []
        self._running: list[tuple[JobClient, StreamCache, CacheFiles]] = []

    def of(self, output: Edge) -> StreamCache:
        """The cache of an output; an empty one where there is none yet."""
        return self._caches.setdefault((output.source, output.side_output), StreamCache(output))

    def applied(self, graph: StreamGraph, wanted: Collection[int]) -> StreamGraph:
        """The graph of a job that reads what there is, and fills the others that it comes by.

        Args:
            graph: the graph.
            wanted: the ids of the nodes that the job is for.
        """
        self._take_what_is_whole()
        for cache in self._caches.values():
            if cache.files is not None:
                graph = _reading(cache, cache.files, graph).subgraph(wanted)
        self._begun = []
        made = {node.id for node in graph}
        for cache in self._caches.values():
            if cache.files is None and cache.output.source in made:
                self._begun.append((cache, _filling(cache, graph)))
        return graph

    def filled_by(self, client: JobClient) -> None:
        """The job whose graph was made last runs: when it has finished, what it has filled is whole."""
        self._running += [(client, cache, files) for cache, files in self._begun]
        self._begun = []

    def invalidate(self, cache: StreamCache) -> None:
        """Forget what is kept, and what jobs that run are about to."""
        cache.files = None
        self._running = [entry for entry in self._running if entry[1] is not cache]

    def clear(self) -> None:
        """Forget all that is kept."""
        for cache in self._caches.values():
            self.invalidate(cache)

    def _take_what_is_whole(self) -> None:
        """Looks for jobs that have finished; one that failed, or was ended, has not made all records."""
        running, self._running = self._running, []
        for client, cache, files in running:
            status = client.get_job_status().result()
            if status is JobStatus.FINISHED:
                cache.files = files
            elif not status.is_terminal_state():
                self._running.append((client, cache, files))


def _filling(cache: StreamCache, graph: StreamGraph) -> CacheFiles:
    """Has a job put the records into a cache beside all else that it does."""
    files = CacheFiles()
    node = graph.add(SinkSpec(DriverSink(files.take)), f"Cache: {graph[cache.output.source].name}", (cache.output,))
    graph.update(node.id, uid=cache.uid)
    return files


def _reading(cache: StreamCache, files: CacheFiles, graph: StreamGraph) -> StreamGraph:
    """Has a job read what is kept, in the place of the operator that would make it again."""
    readers: list[Node] = []

    def read(node: Node, made: StreamGraph) -> Iterator[Node]:
        if any(map(cache.feeds, node.inputs)):
            if not readers:
                readers.append(_reader(cache, files, graph, made.new_id()))
                yield readers[0]
            inputs = (_from(readers[0], edge) if cache.feeds(edge) else edge for edge in node.inputs)
            node = replace(node, inputs=tuple(inputs))
        yield node

    return graph.transform(read)


def _reader(cache: StreamCache, files: CacheFiles, graph: StreamGraph, node_id: int) -> Node:
    producer = graph[cache.output.source]
    return Node(
        id=node_id,
        spec=SourceSpec(CachedSource(files, graph.record_type(cache.output))),
        name=f"Cache: {producer.name}",
        uid=cache.uid,
        parallelism=producer.parallelism,
        call_site=producer.call_site,
    )


def _from(reader: Node, edge: Edge) -> Edge:
    """Let an edge read the cache, where records are in no subtask of their key any more."""
    partitioning = HASH if isinstance(edge.partitioning, ForwardByKey) else edge.partitioning
    return replace(edge, source=reader.id, side_output=None, partitioning=partitioning)


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
        caches: what jobs have left of streams for later ones; None until a stream is cached.
    """

    def __init__(self) -> None:
        self.graph = StreamGraph()
        self.caches: Caches | None = None
        self._pending: set[int] = set()
        self._when_started: list[WhenStarted] = []
        self._starting: list[WhenStarted] = []

    def add(self, spec: OperatorSpec, name: str, inputs: tuple[Edge, ...]) -> Node:
        """Add an operator that is no source; one belongs to a job only when something reads from it."""
        node = self.graph.add(spec, name, inputs)
        self._pending.add(node.id)
        return node

    @property
    def pending(self) -> int:
        """Return how many operators were asked for since the last job; sources do not count."""
        return len(self._pending)

    def next_job(self) -> StreamGraph:
        """The graph of the next job.

        Raises:
            InvalidProgramError: when nothing was asked for since the last job.
        """
        if not self._pending:
            raise InvalidProgramError(
                "the job has no operators: nothing was built since the last execute(); end a stream in print() or "
                "sink_to(), then call execute()"
            )
        job = self.graph.subgraph(self._pending)
        return job if self.caches is None else self.caches.applied(job, self._pending)

    def when_started(self, call: WhenStarted) -> None:
        """Have the next job call something when it was started."""
        self._when_started.append(call)

    def take_next_job(self) -> StreamGraph:
        """Return the graph of :meth:`next_job`, and begin the one after it anew."""
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
        if self.caches is not None:
            self.caches.filled_by(client)
        starting, self._starting = self._starting, []
        for call in starting:
            call(client, is_awaited=is_awaited)

    def discard(self) -> None:
        """Forget what the next job would have been."""
        self._pending.clear()
        self._when_started.clear()
