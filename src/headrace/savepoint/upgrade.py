"""Checkpoint directories of earlier versions of headrace: what they hold is written in the formats of this one."""

from functools import partial

from headrace.checkpoint.directory import Generations
from headrace.checkpoint.manifest import FORMAT_VERSION, Manifest
from headrace.checkpoint.manifest_folder import ManifestFolder
from headrace.common.errors import CheckpointError, StateCorruptedError
from headrace.savepoint.metadata import is_savepoint, read_metadata
from headrace.savepoint.requests import is_job_running
from headrace.state.backend import STATE_BACKENDS
from headrace.storage.folder import Folder


def upgrade(directory: Folder, look_seconds: float) -> tuple[Manifest, tuple[int, ...]]:
    """Write the manifests of a checkpoint directory in the present format, where they are in an earlier one.

    Each is put in the place of the one that says the same, the newest one last: a crash leaves the one or the other.
    Its number and generation stay, so a copy that is behind what was published is still found out. State files are of
    one format; what the first epoch of a job arranges otherwise stays for that. A savepoint, which never changes, is
    read.

    Args:
        directory: the directory.
        look_seconds: how long a job that runs there has to say so.

    Returns:
        The newest manifest, and the earlier formats of those that were written anew; none when nothing was to be done.

    Raises:
        CheckpointError: when there is none, it is damaged or of a newer version, or a job runs there.
    """
    if is_savepoint(directory):
        return read_metadata(directory).checkpoint, ()
    manifests = _manifests(directory)
    newest = manifests.latest()
    if newest is None:
        raise CheckpointError(f"{directory} holds no checkpoints")
    older = [number for number in manifests.numbers() if number < newest.epoch]
    earlier = [found for number in older if (found := manifests.read_older(number)) and _is_earlier(found)]
    if _is_earlier(newest):
        earlier.append(newest)
    if earlier:
        _check(directory, newest, look_seconds)
    for manifest in earlier:
        manifests.replace(manifest)
    return newest, tuple(sorted({manifest.format for manifest in earlier}))


def _manifests(directory: Folder) -> ManifestFolder:
    """The manifests of a directory, in which nothing is made that is not there."""
    try:
        names = directory.folder("manifests").names()
    except (FileNotFoundError, NotADirectoryError):
        names = []
    if not names:
        raise CheckpointError(f"{directory} holds no checkpoints")
    return ManifestFolder(directory, Generations(directory.folder("generations")))


def _is_earlier(manifest: Manifest) -> bool:
    return manifest.format < FORMAT_VERSION


def _check(directory: Folder, newest: Manifest, look_seconds: float) -> None:
    if is_job_running(directory, look_seconds):
        raise CheckpointError(
            f"the job {newest.job_name!r} runs in {directory}: stop it first (headrace stop), and start it with this "
            "version; its checkpoints are of the present format from then on"
        )
    verify = partial(STATE_BACKENDS.load(newest.state_backend).verify, directory.folder("state"))
    for version in newest.versions():
        try:
            verify(version)
        except StateCorruptedError as error:
            raise CheckpointError(f"{directory} is damaged, and stays as it is: {error}") from error
