"""The driver's half of a hybrid source: the enumerator of the source that is read, and the switch to the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointError
from headrace.common.logs import get_logger
from headrace.connectors.hybrid.switching import SourceSwitchContext
from headrace.connectors.source import SplitEnumerator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.connectors.hybrid.switching import SourceChain
    from headrace.connectors.source import EnumeratorContext, Json, Pending, ReadBudget, Source, SplitRead

_ADVICE: Final = "sources may be added behind the others, but not be taken away or replaced"

logger = get_logger(__name__)


class HybridEnumerator(SplitEnumerator):
    """Reads one source after the other.

    A source has ended when a manifest says that all its splits have, and none will follow. Only then is the next one
    made, so a restart at any moment finds either the first at its end or the second where it is. Splits are named
    after their source, as two sources may use one name.

    Args:
        chain: the sources.
        context: where it begins, or goes on.

    Raises:
        CheckpointError: when the program has other sources than those that the checkpoint knows.
    """

    def __init__(self, chain: SourceChain, context: EnumeratorContext) -> None:
        self._chain = chain
        self._context = context
        state = context.state or {"index": 0, "kind": None, "switch": None, "started": None, "finished": {}, "of": None}
        self._index: int = state["index"]
        self._switch = None if state["switch"] is None else SourceSwitchContext.of_json(state["switch"])
        self._started: int | None = state["started"]
        self._finished: dict[str, Json] = dict(state["finished"])
        self._open: set[str] = set()
        self._source = self._source_of(state["kind"])
        self._enumerator = self._begun(state["of"])

    def discover(self, now: int) -> Sequence[str]:
        if self._started is None:
            self._started = now
        while True:
            listed = self._enumerator.discover(now)
            self._finished = {split: self._finished[split] for split in listed if split in self._finished}
            self._open.update(split for split in listed if split not in self._finished)
            if self._chain.is_last(self._index) or self._open or not self._enumerator.is_complete():
                return [self._named(split) for split in listed]
            self._go_on(now)

    def initial_position(self, split_id: str) -> Json:
        return self._enumerator.initial_position(self._inner(split_id))

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        if not self._source.reads_in_pieces:
            budget = replace(budget, pieces=1)
        read = self._enumerator.plan(self._inner(split_id), position, budget, now)
        if read is None:
            return None
        switch = None if self._switch is None else self._switch.to_json()
        pieces = tuple([self._index, switch, piece] for piece in read.pieces)
        return replace(read, split_id=split_id, pieces=pieces)

    def is_finished(self, split_id: str, position: Json) -> bool:
        return self._enumerator.is_finished(self._inner(split_id), position)

    def is_complete(self) -> bool:
        return self._chain.is_last(self._index) and self._enumerator.is_complete()

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return self._enumerator.pending(self._inner(split_id), position, now)

    def is_processing_backlog(self, now: int) -> bool:
        """All sources but the last one are history."""
        return not self._chain.is_last(self._index) or self._enumerator.is_processing_backlog(now)

    def gauges(self) -> Mapping[str, int]:
        return self._enumerator.gauges()

    def snapshot(self) -> Json:
        return {
            "index": self._index,
            "kind": self._source.position_kind,
            "switch": None if self._switch is None else self._switch.to_json(),
            "started": self._started,
            "finished": self._finished,
            "of": self._enumerator.snapshot(),
        }

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        prefix = self._named("")
        inner = {name.removeprefix(prefix): of for name, of in positions.items() if name.startswith(prefix)}
        for split, position in inner.items():
            if self._enumerator.is_finished(split, position):
                self._finished[split] = position
                self._open.discard(split)
            else:
                self._open.add(split)
        self._enumerator.checkpoint_completed(inner)

    def close(self) -> None:
        self._enumerator.close()

    def _source_of(self, kind: str | None) -> Source:
        """The source that is read; ``kind`` is what it was when the checkpoint was written, if there is one."""
        number, count = self._index + 1, len(self._chain.sources)
        if number > count:
            raise CheckpointError(
                f"the checkpoint is of a HybridSource that reads its source {number}, a {kind}, and the program has "
                f"{count}: {_ADVICE}"
            )
        source = self._chain.source(self._index, self._switch)
        if kind not in (None, source.position_kind):
            raise CheckpointError(
                f"the checkpoint is of a HybridSource that reads its source {number}, a {kind}, and that of the "
                f"program is a {source.position_kind}: {_ADVICE}"
            )
        return source

    def _begun(self, state: Json | None) -> SplitEnumerator:
        folder = self._context.folder.folder(str(self._index))
        return self._source.create_enumerator(replace(self._context, folder=folder, state=state))

    def _go_on(self, now: int) -> None:
        """The source that is read has ended: begin with the next one."""
        assert self._started is not None
        logger.info("source %d of a HybridSource, %s, has ended", self._index + 1, self._source.position_kind)
        self._enumerator.close()
        self._switch = SourceSwitchContext(self._finished, self._started)
        self._index += 1
        self._started, self._finished = now, {}
        self._source = self._source_of(None)
        self._enumerator = self._begun(None)

    def _named(self, split_id: str) -> str:
        return f"{self._index}:{split_id}"

    def _inner(self, split_id: str) -> str:
        return split_id.removeprefix(self._named(""))
