"""``headrace checkpoints`` and ``failures``: what a checkpoint directory holds, without touching it; its conversion."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.checkpoint.directory import has_begun
from headrace.checkpoint.failure_history import FailureHistory
from headrace.checkpoint.manifest import FORMAT_VERSION, Manifest, SplitSnapshot
from headrace.checkpoint.manifest_folder import retained_manifests
from headrace.cli.output import new_table, output
from headrace.client.progress import skipped_files
from headrace.common import wording
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import CheckpointError
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.savepoint.upgrade import upgrade
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

_POSITION_WIDTH = 60


def run_checkpoints(location: str, options: Mapping[str, str], console: Console | None = None) -> None:
    """Print the manifests in a checkpoint directory, the newest last.

    Args:
        location: the directory.
        options: those of the client of an object store.
        console: where to print.

    Raises:
        CheckpointError: when there are none, or one is damaged.
    """
    console, directory = console or output(), open_storage(location, options=options)
    manifests = retained_manifests(directory)
    if not manifests:
        raise CheckpointError(f"{directory} holds no checkpoints")
    console.print(_headline(manifests[-1]), soft_wrap=True)
    console.print(manifests_table(manifests, directory))
    console.print(splits_table(manifests[-1]))


def run_upgrade(location: str, options: Mapping[str, str], timeout: float) -> None:
    """Convert what earlier versions have written into a checkpoint directory, and print what was done.

    Args:
        location: the directory.
        options: those of the client of an object store.
        timeout: how many seconds a job that runs there has to say so.
    """
    newest, formats = upgrade(open_storage(location, options=options), timeout)
    if formats:
        earlier = ", ".join(map(str, formats))
        outcome = f"is of format {FORMAT_VERSION} now (before: {earlier})"
    else:
        outcome = "is of the present format: nothing is to be done"
    output().print(Text(f"{location}: epoch {newest.epoch} of job {newest.job_name!r} {outcome}"), soft_wrap=True)


def manifests_table(manifests: list[Manifest], directory: Folder) -> Table:
    """One line for each manifest."""
    table = new_table("epoch", "generation", "watermark (UTC)", "state", "to commit", "sinks that wait", "records read")
    for manifest in manifests:
        table.add_row(
            str(manifest.epoch),
            str(manifest.generation),
            _watermark(watermark_of(manifest)),
            wording.size(state_bytes(manifest, directory)),
            str(len(manifest.pending)),
            str(len(manifest.in_progress)),
            wording.number(manifest.counters.get("numRecordsRead", 0)),
        )
    return table


def splits_table(manifest: Manifest) -> Table:
    """Return where the sources go on, one line for each split."""
    table = new_table("source", "split", "goes on at", "watermark (UTC)")
    for uid, source in manifest.sources.items():
        for split in source.splits:
            position = "finished" if split.finished else _shortened(json.dumps(split.position))
            cells = (uid, split.split_id, position, _watermark(_split_watermark(split)))
            # As text: ids and positions may contain brackets, which rich would take for markup
            table.add_row(*map(Text, cells))
        if source.finished:
            table.add_row(Text(uid), _finished(source.finished), Text("finished"), _watermark(MAX_WATERMARK))
    return table


def watermark_of(manifest: Manifest) -> int:
    """The lowest event time of all splits that have not ended."""
    splits = [split for source in manifest.sources.values() for split in source.splits]
    alive = [_split_watermark(split) for split in splits if not split.finished]
    begun = splits or any(source.finished for source in manifest.sources.values())
    if manifest.finished or (begun and not alive):
        return MAX_WATERMARK
    return min(alive, default=MIN_WATERMARK)


def state_bytes(manifest: Manifest, directory: Folder) -> int:
    """The bytes in all runs of the state; of an older manifest, which does not say it, those of the files it is in."""
    if manifest.state_bytes is not None:
        return manifest.state_bytes
    state = directory.folder("state")
    files = sum(state.size(name) or 0 for name in set(manifest.state_files()))
    versions = [part.version for stage in manifest.stages for part in stage.partitions if part.version is not None]
    return files + sum(len(v.inline) for v in versions)


def _headline(manifest: Manifest) -> Text:
    written = wording.point_in_time(manifest.processing_time)
    skipped = skipped_files(manifest.counters)
    state = "ended" if manifest.finished else "goes on from here when it is run again"
    about = f" (job id {manifest.job_id}, {manifest.max_parallelism} key groups), last written {written}; it {state}"
    return Text.assemble("job ", (manifest.job_name, "bold"), about, f"; {skipped}" if skipped else "")


def _watermark(millis: int) -> str:
    return wording.watermark(millis).removesuffix(" UTC")


def _finished(splits: Sequence[str]) -> Text:
    """The splits that ended before: the one that there is, or how many."""
    return Text(splits[0] if len(splits) == 1 else f"{len(splits)} splits")


def _split_watermark(split: SplitSnapshot) -> int:
    return min(split.watermarks.values(), default=MIN_WATERMARK)


def _shortened(text: str) -> str:
    return text if len(text) <= _POSITION_WIDTH else f"{text[: _POSITION_WIDTH - 1]}…"


def run_failures(
    location: str, options: Mapping[str, str], console: Console | None = None, now: float | None = None
) -> None:
    """Print the failures that a checkpoint directory knows of, the latest last.

    Args:
        location: the directory.
        options: those of the client of an object store.
        console: where to print.
        now: the time in milliseconds; that of the system when left out.

    Raises:
        CheckpointError: when the directory cannot be read, or is none of checkpoints.
    """
    console, directory = console or output(), open_storage(location, options=options)
    now = time.time() * 1000 if now is None else now
    failures = FailureHistory(directory).read()
    if not (failures or has_begun(directory)):
        raise CheckpointError(f"{directory} is no checkpoint directory: no job has begun there")
    if not failures:
        console.print(Text(f"{directory} knows of no failures"), soft_wrap=True)
    for failure in failures:
        waits = failure is failures[-1] and failure.time + (failure.restart_in or 0) * 1000 > now
        console.print(_failure_line(failure, waits=waits), soft_wrap=True)
        for line in _details(failure):
            console.print(Text(f"  {line}"), soft_wrap=True)


def _failure_line(failure: JobFailure, *, waits: bool) -> Text:
    if failure.restart_in is None:
        what_then = "the job ended"
    elif waits:
        delay = wording.span(failure.restart_in)
        what_then = f"{JobStatus.RESTARTING.name}: restart {failure.restarts + 1} of the run follows in {delay}"
    else:
        what_then = f"restart {failure.restarts + 1} of the run followed in {wording.span(failure.restart_in)}"
    when = wording.point_in_time(failure.time)
    return Text.assemble(
        f"{failure.number}. {when}, epoch {failure.epoch}: ", (failure.error, "bold"), f"; {what_then}"
    )


def _details(failure: JobFailure) -> Iterator[str]:
    yield from failure.message.splitlines()
    if failure.origin is not None and failure.origin.executor is not None:
        yield f"on {failure.origin.executor}"
    for key, text in sorted(failure.labels.items()):
        yield f"{key}: {text}"
