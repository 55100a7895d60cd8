"""A manifest with something of everything, for tests."""

from __future__ import annotations

from headrace.checkpoint.manifest import (
    Manifest,
    OperatorProgress,
    OperatorSnapshot,
    PartitionSnapshot,
    PendingCommit,
    SourceIdentity,
    SourceSnapshot,
    SplitSnapshot,
    StageSnapshot,
)
from headrace.state.protocols import KEYED
from headrace.state.state_file import VersionRef


def manifest(epoch: int, *files: str, generation: int = 0) -> Manifest:
    version = VersionRef(1, 0, epoch, name=files[-1], files=tuple(files)) if files else None
    stage = StageSnapshot(
        {"op": OperatorSnapshot(1, 7, KEYED), "other": OperatorSnapshot(1, 128)},
        (PartitionSnapshot(version, {"op": OperatorProgress(-5, 7)}, 99),),
    )
    splits = (SplitSnapshot("split", 0, [1, "x"], {"ts": -(2**63)}, True),)
    source = SourceSnapshot({"seen": 3}, splits, ("old",), SourceIdentity("FileSource", ("/in/ä", "/in/b")))
    pending = (PendingCommit(epoch, "sink", 12, ({"file": "a"}, "b")),)
    return Manifest(
        epoch,
        generation,
        "id",
        "job",
        128,
        1000,
        {"src": source},
        (StageSnapshot(), stage),
        pending,
        {"sink": [["", 0, []]]},
        False,
        {"n": 4},
    )
