"""A start of a job from how far sources have been read, and from nothing else of a savepoint."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from headrace.checkpoint.manifest import Manifest, SourceSnapshot
from headrace.jobmanager.recovery import SavepointStart, Store
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.sources import same_sources
from headrace.plan.job_plan import JobPlan
from headrace.savepoint.metadata import SavepointMetadata
from headrace.savepoint.tables import copy_in, named_files, put
from headrace.state.backend import StateBackendPlugin
from headrace.state.state_file import RunHead
from headrace.storage.folder import source_folder
from headrace.storage.locations import open_storage


class PositionsStart(SavepointStart):
    """A savepoint of which a job takes only how far sources have been read; its operators begin without state."""

    def _of_known(self, known: Manifest, metadata: SavepointMetadata, fresh: Manifest, plan: JobPlan) -> Manifest:
        self._old_by_new = same_sources(known, plan)
        channels = count()
        return replace(
            fresh,
            processing_time=known.processing_time,
            restored_from=self._location,
            sources={new: _without_times(known.sources[old], channels) for new, old in self._old_by_new.items()},
        )

    def heads(self, backend: StateBackendPlugin) -> Iterator[RunHead]:
        return iter(())

    def _taken_in(
        self, metadata: SavepointMetadata, manifest: Manifest, plan: JobPlan, runtime: Runtime, store: Store
    ) -> Manifest:
        directory = open_storage(metadata.directory, options=self._options) if metadata.directory else None
        for new, old in self._old_by_new.items():
            folder = store.source_folder(new)
            for file in metadata.files:
                if file.uid == old:
                    copy_in(file, self._directory, folder)
            if directory is not None and not metadata.pin:
                for name, content in named_files(metadata.checkpoint.sources[old], source_folder(directory, old)):
                    put(name, content, folder)
        return manifest


def _without_times(source: SourceSnapshot, channels: Iterator[int]) -> SourceSnapshot:
    """The position of a source whose operators make watermarks anew."""
    splits = (replace(each, channel=next(channels), watermarks={}, generators={}) for each in source.splits)
    return replace(source, splits=tuple(splits))
