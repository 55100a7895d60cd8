"""``UidMapping``: operators, sources and sinks that have another uid in the program than in what it starts from."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from headrace.checkpoint.manifest import Manifest, SourceSnapshot, StageSnapshot
from headrace.common.errors import StateMigrationError
from headrace.savepoint.metadata import SavepointMetadata
from headrace.state.state_file import RunHead

T = TypeVar("T")

_CANNOT: Final = "uids cannot be mapped as it is said"


@dataclass(frozen=True, slots=True)
class UidMapping:
    """New uids by old ones. All change at once, so two operators may change theirs.

    Example:
        >>> UidMapping({"totals": "totals-by-user"}).of("totals")
        'totals-by-user'
        >>> UidMapping({"totals": "totals-by-user"}).of("orders")
        'orders'

    Attributes:
        new_by_old: the uids.
    """

    new_by_old: Mapping[str, str]

    def of(self, uid: str) -> str:
        """The uid that the program has for an old one."""
        return self.new_by_old.get(uid, uid)

    def check(self, manifest: Manifest, program: Collection[str]) -> None:
        """Refuse a mapping that does not fit.

        Args:
            manifest: what the job starts from.
            program: the uids of all operators, sources and sinks of the program.

        Raises:
            StateMigrationError: with everything that is wrong.
        """
        wrong = list(self._wrong(frozenset(_uids(manifest)), program))
        if wrong:
            raise StateMigrationError(f"{_CANNOT}: {'; '.join(wrong)}")

    def _wrong(self, stored: frozenset[str], program: Collection[str]) -> Iterator[str]:
        for old, new in self.new_by_old.items():
            if old not in stored:
                yield f"{old}={new}: nothing is stored under the uid {old!r}, but under {_listed(stored)}"
            if new not in program:
                yield f"{old}={new}: the program has no operator with the uid {new!r}; it has {_listed(program)}"
            if new in stored and new not in self.new_by_old:
                yield (
                    f"{old}={new}: something is stored under the uid {new!r} already, which would be mixed up with it; "
                    f"map that elsewhere as well, or give the operator another uid"
                )
        for new, count in Counter(self.new_by_old.values()).items():
            if count > 1:
                olds = sorted(old for old, mapped in self.new_by_old.items() if mapped == new)
                yield f"{' and '.join(map(repr, olds))} would both become {new!r}: what one operator holds is of one"

    def left(self, own: Manifest, program: Collection[str]) -> "UidMapping":
        """The mappings that are left for the job's own directory: a uid that was mapped once is the new one there.

        Args:
            own: the newest manifest there.
            program: as for :meth:`check`.

        Raises:
            StateMigrationError: with everything that is wrong; also where operators would exchange their uids, which
                the next start would do again, and where a sink has output that it has yet to publish.
        """
        stored = frozenset(_uids(own))
        left = UidMapping({old: new for old, new in self.new_by_old.items() if old in stored or new not in stored})
        wrong = [*left._wrong(stored, program), *self._wrong_in_place(own)]
        if wrong:
            raise StateMigrationError(f"{_CANNOT}: {'; '.join(wrong)}")
        return left

    def _wrong_in_place(self, own: Manifest) -> Iterator[str]:
        for old, new in self.new_by_old.items():
            if new in self.new_by_old:
                yield (
                    f"{old}={new}: {new!r} gets another uid as well, and the next start would do that again; start a "
                    "job in a fresh checkpoint directory from this one (-s)"
                )
        busy = {*(commit.sink for commit in own.pending), *own.in_progress} & self.new_by_old.keys()
        for uid in sorted(busy):
            yield (
                f"the sink {uid!r} has output that it has yet to publish: leave it out here, or start from a savepoint "
                "of the job (-s), with which that is published"
            )

    def manifest(self, known: Manifest) -> Manifest:
        """The manifest that a job starts from, under the program's uids; versions of state still have the old ones."""
        return replace(
            known,
            sources={self.of(uid): self._source(source) for uid, source in known.sources.items()},
            stages=tuple(map(self._stage, known.stages)),
            operator_counters=self._keys(known.operator_counters),
        )

    def metadata(self, known: SavepointMetadata) -> SavepointMetadata:
        """The same of a whole savepoint; paths of files stay."""
        return replace(
            known,
            checkpoint=self.manifest(known.checkpoint),
            tables=tuple(replace(table, uid=self.of(table.uid)) for table in known.tables),
            files=tuple(replace(file, uid=self.of(file.uid)) for file in known.files),
        )

    def heads(self, known: Iterable[RunHead]) -> Iterator[RunHead]:
        """The descriptions of stored runs, under the program's uids."""
        return (head._replace(uid=self.of(head.uid)) for head in known)

    def _source(self, source: SourceSnapshot) -> SourceSnapshot:
        splits = (
            replace(split, watermarks=self._keys(split.watermarks), generators=self._keys(split.generators))
            for split in source.splits
        )
        return replace(source, splits=tuple(splits))

    def _stage(self, stage: StageSnapshot) -> StageSnapshot:
        partitions = (replace(part, progress=self._keys(part.progress)) for part in stage.partitions)
        return replace(stage, operators=self._keys(stage.operators), partitions=tuple(partitions))

    def _keys(self, by_uid: Mapping[str, T]) -> dict[str, T]:
        return {self.of(uid): value for uid, value in by_uid.items()}


SAME_UIDS: Final = UidMapping({})


def _uids(manifest: Manifest) -> Iterator[str]:
    """All uids that a manifest says anything of; sinks without state are not among them."""
    yield from manifest.sources
    for source in manifest.sources.values():
        for split in source.splits:
            yield from (*split.watermarks, *split.generators)
    for stage in manifest.stages:
        yield from stage.operators


def _listed(uids: Collection[object]) -> str:
    return ", ".join(sorted(map(repr, uids))) or "none"
