"""Files that hold one run each, which no version was written for: any number of versions may come to refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.state.run_entries import entry_of_run
from headrace.state.state_file import CompactedName, ImageWriter

if TYPE_CHECKING:
    from headrace.state.run_entries import Entry
    from headrace.state.runs import Run
    from headrace.storage.folder import Folder


def write_run(storage: Folder, run: Run, generation: int, stage: int, about: dict[str, Any]) -> Entry:
    """Writes a run to a file of its own; the same run always gives the same bytes under the same name.

    Args:
        storage: where state files are.
        run: the run; its ``origin`` is the partition that writes it.
        generation: that of the job manager, so that an older one which is still alive cannot delete the file.
        stage: the stage of the task.
        about: what the index of the file says of where the run comes from: JSON.

    Returns:
        The run as an index describes it, with the name of its file.

    Raises:
        OSError: when it cannot be written.
    """
    writer = ImageWriter()
    place = run.section.describe(writer.add(run.section))
    entry = {**entry_of_run(run), **place}
    chunks = writer.finish({**about, "runs": [entry]})
    name = str(CompactedName(generation, stage, run.origin, writer.digest))
    storage.write(name, chunks)
    return {**entry, "file": name}
