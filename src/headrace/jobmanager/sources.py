"""The sources of a job in the driver: splits, positions, watermarks, idleness, alignment."""

import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from headrace.checkpoint.manifest import Manifest, SourceIdentity, SourceSnapshot, SplitSnapshot
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.logs import get_logger
from headrace.connectors.source import Boundedness, EnumeratorContext, ReadBudget, Source, SplitRead
from headrace.graph.specs import SourceSpec
from headrace.jobmanager.epoch_reports import EpochReports
from headrace.jobmanager.metrics import ReadingHistory, SourceProgress, SplitProgress
from headrace.operators.user_code import NamingSource
from headrace.plan.job_plan import JobPlan, PlannedOperator, has_to_be_read_whole, timestamps_operators
from headrace.runtime.task.messages import ChannelReport, SplitAssignment
from headrace.storage.folder import source_folder
from headrace.storage.locations import usual_spelling
from headrace.time.watermark_strategy import WatermarkAlignment

logger = get_logger(__name__)


@dataclass(slots=True)
class Split:
    """One split of one source.

    Attributes:
        split_id: the enumerator's id for it.
        channel: its number within the job.
        position: where the next epoch goes on.
        watermarks: by uid of the operator that makes them.
        generators: by uid of the operator, the memory of its generator, if that has one.
        active_since: by uid, when that operator last saw a record, in milliseconds of the job's clock.
        paces: by uid of the operators whose watermarks are aligned: milliseconds of event time in a record, as the
            last shares of the split tell; None before two watermarks are known.
        idle: the operators whose idleness the tasks know.
        finished: whether the tasks know that nothing will come any more.
        is_held_back: whether it waited in the last epoch for others that it is aligned with.
        read_at: when something of it was last read in this run, in milliseconds of the job's clock; None for never.
    """

    split_id: str
    channel: int
    position: object
    watermarks: dict[str, int] = field(default_factory=dict)
    generators: dict[str, object] = field(default_factory=dict)
    active_since: dict[str, int] = field(default_factory=dict)
    paces: dict[str, float | None] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    finished: bool = False
    is_held_back: bool = False
    read_at: int | None = None

    @property
    def watermark(self) -> int:
        """The lowest watermark that was made of its records."""
        return min(self.watermarks.values(), default=MIN_WATERMARK)

    def reaches(self, operator: str, watermark: int) -> None:
        """An operator has come so far with its records; it never goes back."""
        self.watermarks[operator] = max(watermark, self.watermarks.get(operator, MIN_WATERMARK))

    def has_read(self, records: int, before: Mapping[str, int]) -> None:
        """Learn the pace: records have brought the watermarks of aligned operators from ``before`` to the present ones.

        A slow stretch counts half.
        """
        for uid, pace in self.paces.items():
            start, end = before.get(uid, MIN_WATERMARK), self.watermarks.get(uid, MIN_WATERMARK)
            if records > 0 and start > MIN_WATERMARK and end < MAX_WATERMARK:
                self.paces[uid] = max((end - start) / records, (pace or 0.0) / 2)


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The plan of an epoch for one split."""

    split: Split
    read: SplitRead | None
    ends: bool
    idle: frozenset[str]
    is_held_back: bool = False

    @property
    def changes_something(self) -> bool:
        """Return whether the split alone is a reason to run an epoch."""
        return self.read is not None or self.ends or self.idle != self.split.idle


FIRST_RECORDS: Final = 100
"""The most records that an epoch reads of a split of a group as long as its pace is not known: in two epochs."""


class SourceCoordinator:
    """One source: its enumerator and its splits.

    Args:
        planned: the source in the plan.
        plan: the job.
        context: what its enumerator is started with.
        snapshot: what an earlier manifest knew of it.
        channels: gives a number to each new split.
        now: the reading of the job's clock in milliseconds.

    Attributes:
        planned: as above.
        enumerator: discovers its splits.
        timestamps: by uid, the operators that make watermarks of its records before the first shuffle, with their
            strategies.
        alignments: those of them whose watermarks are aligned in a group.
    """

    def __init__(
        self,
        planned: PlannedOperator,
        plan: JobPlan,
        context: EnumeratorContext,
        snapshot: SourceSnapshot | None,
        channels: Iterator[int],
        now: int,
    ) -> None:
        assert isinstance(planned.node.spec, SourceSpec)
        self.planned = planned
        self._source = planned.node.spec.source
        self._name = plan.shown_names()[planned.uid]
        self._identity = identity_of(self._source)
        self.timestamps = timestamps_operators(plan, planned)
        self._idle_timeouts: dict[str, int] = {}
        self.alignments: dict[str, WatermarkAlignment] = {}
        for uid, way in self.timestamps.items():
            if way.idle_timeout is not None:
                self._idle_timeouts[uid] = way.idle_timeout
            if way.alignment is not None:
                self.alignments[uid] = way.alignment
        all_time_out = len(self._idle_timeouts) == len(self.timestamps)
        self._idle_timeout = max(self._idle_timeouts.values(), default=None) if all_time_out else None
        self._is_read_whole = has_to_be_read_whole(plan, planned)
        self._pieces = planned.parallelism if self._source.reads_in_pieces and not self._is_read_whole else 1
        self._channels = channels
        self._named_in_errors = NamingSource(planned.node.name, planned.node.call_site)
        with self._named_in_errors:
            self.enumerator = self._source.create_enumerator(context)
        self._history = ReadingHistory(now)
        self._last_watermark = MIN_WATERMARK
        self._splits: dict[str, Split] = {}
        self._finished: dict[str, None] = {}  # a set in the order in which they finished
        if snapshot is not None:
            for split in snapshot.splits:
                self._restore(split, now)
            self._finished = dict.fromkeys(snapshot.finished)
            self.checkpoint_completed()

    def plan(self, budget: ReadBudget, now: int, held_back: Set[int] = frozenset()) -> list[SplitPlan]:
        """Return what an epoch reads of the source; the splits that lag behind most come first.

        Args:
            budget: how much it may read.
            now: the reading of the job's clock in milliseconds.
            held_back: the channels of the splits that are not read, since they are too far ahead.
        """
        plans: list[SplitPlan] = []
        waiting: list[Split] = []
        for split in sorted(self.unfinished(), key=attrgetter("watermark", "channel")):
            if split.channel in held_back:
                plans.append(self._held_back(split, now))
            else:
                waiting.append(split)
        records, size = budget.records, budget.bytes
        for number, split in enumerate(waiting):
            left = len(waiting) - number
            share = ReadBudget(max(1, records // left), max(1, size // left), self._pieces)
            if None in split.paces.values():
                share = replace(share, records=min(share.records, FIRST_RECORDS))
            planned = self._plan_split(split, share, now)
            plans.append(planned)
            if planned.read is not None:
                records, size = records - planned.read.records, size - planned.read.bytes
        return plans

    def ending(self) -> list[SplitPlan]:
        """Return what an epoch does with the splits when nothing is read of them any more."""
        return [SplitPlan(split, None, ends=True, idle=frozenset()) for split in self.unfinished()]

    def shortened(self, planned: SplitPlan, records: int, now: int) -> SplitPlan:
        """Return what is planned for a split, with so many records at most."""
        assert planned.read is not None
        share = ReadBudget(records, max(1, planned.read.bytes), self._pieces)
        return self._plan_split(planned.split, share, now)

    def unfinished(self) -> Iterator[Split]:
        """The splits from which something may still come."""
        return itertools.filterfalse(attrgetter("finished"), self._splits.values())

    def completed(self, plans: Iterable[SplitPlan], reports: Mapping[int, Iterable[ChannelReport]], now: int) -> None:
        """An epoch has run, with these reports by channel: move on."""
        before = {split.channel: dict(split.watermarks) for split in self._splits.values() if split.paces}
        for planned in plans:
            if planned.read is not None:
                planned.split.position = planned.read.end
                planned.split.read_at = now
            planned.split.finished = planned.ends
            planned.split.idle = planned.idle
            planned.split.is_held_back = planned.is_held_back
        for split in self._splits.values():
            for report in reports.get(split.channel, ()):
                if report.operator in self.timestamps:
                    split.reaches(report.operator, report.watermark)
                    if report.generator is not None:
                        split.generators[report.operator] = report.generator
                    if report.saw_records:
                        split.active_since[report.operator] = now
        for planned in plans:
            if planned.read is not None and planned.split.paces:
                planned.split.has_read(planned.read.records, before[planned.split.channel])

    def progress(self, now: int) -> Iterator[SplitProgress]:
        """Return how far each split has come."""
        for split in self.unfinished():
            yield SplitProgress(
                self._name,
                split.split_id,
                {uid: split.watermarks.get(uid, MIN_WATERMARK) for uid in self.timestamps},
                split.idle,
                split.is_held_back,
                self.planned.uid,
                self.enumerator.pending(split.split_id, split.position, now),
                split.read_at,
                self._idle_timeout,
            )

    def reading(
        self,
        plans: Iterable[SplitPlan],
        reports: EpochReports,
        splits: Iterable[SplitProgress],
        fetched_at: int,
        now: int,
        backlog_lag: int | None,
    ) -> SourceProgress:
        """An epoch is complete: what it has read tells how far the source is behind.

        Args:
            plans: what it was to read of the source.
            reports: what its tasks have reported.
            splits: how far all splits have come.
            fetched_at: when it began, in milliseconds of the job's clock.
            now: the reading of that clock.
            backlog_lag: as in :meth:`is_processing_backlog`.
        """
        size, last = 0, list[int | None]()
        for planned in plans:
            if planned.read is not None:
                size += planned.read.bytes
                times = (report.event_time for report in reports.channels.get(planned.split.channel, ()))
                last.append(max((time for time in times if time is not None), default=None))
        self._history.add(reports.records_read(self.planned.uid), size, last, fetched_at, now)
        return SourceProgress(
            self._name,
            self._history.total(split.pending for split in splits if split.uid == self.planned.uid),
            self.watermark(),
            self._history.idle_since,
            self.is_processing_backlog(now, backlog_lag),
            self._history.lags,
            self.enumerator.gauges(),
            self.planned.uid,
        )

    def is_processing_backlog(self, now: int, backlog_lag: int | None) -> bool:
        """Return whether the source reads what is history.

        Args:
            now: the reading of the job's clock in milliseconds.
            backlog_lag: it does when its watermark is further behind the clock, in milliseconds; None: only the
                enumerator says.
        """
        if self.enumerator.is_processing_backlog(now):
            return True
        if backlog_lag is None:
            return False
        watermark = min((split.watermark for split in self._counting()), default=MAX_WATERMARK)
        return MIN_WATERMARK < watermark < now - backlog_lag

    def snapshot(self) -> SourceSnapshot:
        """For the manifest."""
        return SourceSnapshot(
            self.enumerator.snapshot(),
            tuple(
                SplitSnapshot(
                    split.split_id,
                    split.channel,
                    split.position,
                    dict(split.watermarks),
                    split.finished,
                    dict(split.generators),
                )
                for split in self._splits.values()
            ),
            tuple(self._finished),
            self._identity,
        )

    def checkpoint_completed(self) -> None:
        """The manifest with the last snapshot exists; of splits that have finished by it, only the ids are kept."""
        self.enumerator.checkpoint_completed({split.split_id: split.position for split in self._splits.values()})
        for split in tuple(self._splits.values()):
            if split.finished:
                del self._splits[split.split_id]
                self._finished[split.split_id] = None

    def watermark(self) -> int:
        """The lowest event time of the splits that count; the highest where all are idle.

        Where the next split has yet to come it is the last one.
        """
        if counting := self._counting():
            self._last_watermark = min(split.watermark for split in counting)
        elif idle := list(self.unfinished()):
            self._last_watermark = max(split.watermark for split in idle)
        elif self.enumerator.is_complete():
            return MAX_WATERMARK
        return self._last_watermark

    def is_idle(self) -> bool:
        """Return whether nothing waits for its event time, for now or for good."""
        return not self._counting() and (any(self.unfinished()) or self.enumerator.is_complete())

    def _counting(self) -> list[Split]:
        return list(itertools.filterfalse(attrgetter("idle"), self.unfinished()))

    def advance_watermark(self, split_id: str, watermark: int, now: int) -> None:
        """Say by hand how far a split's event time has come; the next epoch starts from there. It never goes back."""
        if split_id not in self._splits:
            self.discover(now)
        if split_id in self._finished:
            return
        for uid in self.timestamps:
            self._splits[split_id].reaches(uid, watermark)

    def next_idle_at(self) -> int | None:
        """Return when the next split becomes idle if nothing comes, in milliseconds; None for never."""
        times = [
            split.active_since[uid] + timeout
            for split in self.unfinished()
            for uid, timeout in self._idle_timeouts.items()
            if uid not in split.idle and uid in split.active_since
        ]
        return min(times, default=None)

    def assignments(self, planned: SplitPlan) -> list[SplitAssignment]:
        """Return what tasks do with a split in an epoch: its pieces in order, or nothing to read."""
        split, uid = planned.split, self.planned.uid
        starts = {operator: split.watermarks.get(operator, MIN_WATERMARK) for operator in self.timestamps}
        reads = () if planned.read is None else planned.read.pieces
        first = SplitAssignment(
            uid, split.channel, 0, reads, starts, dict(split.generators), ends=planned.ends, idle=planned.idle
        )
        if len(reads) <= 1 or self._is_read_whole:
            return [first]
        # Nothing is known of the pieces before: the receivers lift what later pieces say to what earlier ones reached.
        unknown = dict.fromkeys(self.timestamps, MIN_WATERMARK)
        return [
            replace(
                first,
                piece=number,
                reads=(read,),
                starts=starts if number == 0 else unknown,
                ends=planned.ends and number == len(reads) - 1,
            )
            for number, read in enumerate(reads)
        ]

    def _plan_split(self, split: Split, share: ReadBudget, now: int) -> SplitPlan:
        with self._named_in_errors:
            read = self.enumerator.plan(split.split_id, split.position, share, now)
            end = split.position if read is None else read.end
            ends = self.enumerator.is_finished(split.split_id, end)
        idle = frozenset() if read is not None else self._idle(split, now)
        return SplitPlan(split, read, ends, idle)

    def _idle(self, split: Split, now: int) -> frozenset[str]:
        """The operators that have been silent for their timeout, while there was nothing to read."""
        return frozenset(
            uid
            for uid, timeout in self._idle_timeouts.items()
            if now - split.active_since.setdefault(uid, now) >= timeout
        )

    def _held_back(self, split: Split, now: int) -> SplitPlan:
        """The plan of a split that waits for others: it is not silent, so it is as far from idle as at first."""
        split.active_since = dict.fromkeys(self.timestamps, now)
        ends = self.enumerator.is_finished(split.split_id, split.position)
        return SplitPlan(split, None, ends, split.idle, is_held_back=True)

    def discover(self, now: int) -> None:
        """Look for new splits."""
        with self._named_in_errors:
            listed = dict.fromkeys(self.enumerator.discover(now))
            known = self._splits.keys() | self._finished.keys()
            new = {split_id: self.enumerator.initial_position(split_id) for split_id in listed if split_id not in known}
        for split_id, position in new.items():
            self._add(Split(split_id, next(self._channels), position), now)
        for split_id in self._finished.keys() - listed.keys():
            del self._finished[split_id]

    def _restore(self, snapshot: SplitSnapshot, now: int) -> None:
        watermarks = {uid: reached for uid, reached in snapshot.watermarks.items() if uid in self.timestamps}
        have_memory = {uid for uid, strategy in self.timestamps.items() if strategy.has_memory}
        generators = {uid: memory for uid, memory in snapshot.generators.items() if uid in have_memory}
        split = Split(snapshot.split_id, snapshot.channel, snapshot.position, watermarks, generators)
        split.finished = snapshot.finished
        self._add(split, now)

    def _add(self, split: Split, now: int) -> None:
        split.active_since = dict.fromkeys(self.timestamps, now)
        split.paces = dict.fromkeys(self.alignments)
        self._splits[split.split_id] = split


def restore_sources(
    plan: JobPlan,
    manifest: Manifest,
    store: CheckpointStore | TemporaryStore,
    storage_options: Mapping[str, str],
    now: int,
) -> Iterator[SourceCoordinator]:
    """The sources of a job, one after the other, each where a manifest says that it goes on.

    Args:
        plan: the job.
        manifest: says how far the splits were read.
        store: where enumerators keep what is theirs.
        storage_options: how they reach object stores.
        now: the reading of the job's clock in milliseconds.
    """
    taken = [split.channel for source in manifest.sources.values() for split in source.splits]
    channels = itertools.count(max(taken, default=-1) + 1)
    for planned in plan.operators():
        if not planned.node.inputs:
            snapshot = manifest.sources.get(planned.uid)
            known = None if snapshot is None else snapshot.enumerator
            folder = source_folder(store.storage, planned.uid)
            context = EnumeratorContext(planned.parallelism, folder, known, storage_options)
            yield SourceCoordinator(planned, plan, context, snapshot, channels, now)


_MOST_LOCATIONS: Final = 8
"""The locations that a manifest lists, which is written in every epoch; the rest becomes a number and a checksum."""


def identity_of(source: Source) -> SourceIdentity:
    """Return what a manifest says of a source, to know it again."""
    locations = sorted(set(map(usual_spelling, source.locations)))
    rest = locations[_MOST_LOCATIONS:]
    if rest:
        checksum = zlib.crc32("\n".join(rest).encode())
        locations[_MOST_LOCATIONS:] = [f"{len(rest)} more ({checksum:08x})"]
    return SourceIdentity(source.position_kind, tuple(locations))


def misplaced_positions(manifest: Manifest, plan: JobPlan) -> dict[str, str]:
    """Return what the program must not go on from, though it has a source with the same uid: by uid, in words.

    That is the position of a source of another kind. And under a derived uid that of one which has another uid in the
    program, or where the program's source had another uid: a source that is put before others, or taken from there,
    shifts the uids of those behind it.
    """
    own_of = {operator.uid: identity_of(source) for operator, source in _sources(plan)}
    changed = {o.uid: o for o, _ in _sources(plan) if _known(manifest, o.uid) != own_of[o.uid]}
    derived = {uid for uid, operator in changed.items() if not operator.has_explicit_uid}
    are_now = {own_of[uid] for uid in changed}
    were = {_known(manifest, uid) for uid in manifest.sources if uid in derived or uid not in own_of}
    found = {}
    for uid, operator in changed.items():
        known, own = _known(manifest, uid), own_of[uid]
        if known is None:
            continue
        is_shifted = (known.locations and known in are_now) or (own.locations and own in were)
        if known.kind != own.kind or (is_shifted and uid in derived):
            found[uid] = (
                f"the position of {known} (its uid {uid} is now that of {own}, {operator.node.name!r} at "
                f"{operator.node.call_site}{_advice_on_kinds(known, own)})"
            )
    return found


def warn_of_moved_sources(manifest: Manifest, plan: JobPlan) -> None:
    """Say which sources read somewhere else than before; they go on from their positions all the same."""
    for operator, source in _sources(plan):
        known, own = _known(manifest, operator.uid), identity_of(source)
        if known is None or known.kind != own.kind or not known.locations or not own.locations:
            continue
        if known != own:
            is_bounded = source.boundedness is Boundedness.BOUNDED
            logger.warning(
                "source %s is %s now, and goes on from the position of %s: what that had found is still read%s",
                operator.label,
                own,
                known,
                "; as it ends, it looks for nothing new" if is_bounded else "",
            )


def same_sources(manifest: Manifest, plan: JobPlan) -> dict[str, str]:
    """Return which source of a manifest has read what one of the program reads: its uid, by that of the program's.

    Where several have, they are taken in turn, and the last one for all that are left.
    """
    known: dict[SourceIdentity, list[str]] = {}
    for uid in manifest.sources:
        identity = _known(manifest, uid)
        if identity is not None and identity.locations:
            known.setdefault(identity, []).append(uid)
    found = {}
    for operator, source in _sources(plan):
        if left := known.get(identity_of(source)):
            found[operator.uid] = left.pop(0) if len(left) > 1 else left[0]
    return found


def _sources(plan: JobPlan) -> Iterator[tuple[PlannedOperator, Source]]:
    for operator in plan.operators():
        if isinstance(operator.node.spec, SourceSpec):
            yield operator, operator.node.spec.source


def _known(manifest: Manifest, uid: str) -> SourceIdentity | None:
    """Return which source the manifest has a position of under a uid, if it says so."""
    snapshot = manifest.sources.get(uid)
    if snapshot is None or not snapshot.is_begun or snapshot.identity is None:
        return None
    known = snapshot.identity
    listed, rest = known.locations[:_MOST_LOCATIONS], known.locations[_MOST_LOCATIONS:]
    # Earlier versions wrote what the program had.
    return SourceIdentity(known.kind, (*sorted(set(map(usual_spelling, listed))), *rest))


def _advice_on_kinds(known: SourceIdentity, own: SourceIdentity) -> str:
    if known.kind == own.kind:
        return ""
    return f"; if that is the same class under another name, have its position_kind be {known.kind!r}"
