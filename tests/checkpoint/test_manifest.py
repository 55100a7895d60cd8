"""The bytes of manifests: those of earlier formats are read, and damage is noticed."""

from __future__ import annotations

import json
import zlib

import pytest

from headrace.checkpoint.manifest import (
    Manifest,
    OperatorProgress,
    OperatorSnapshot,
    PartitionSnapshot,
    SourceSnapshot,
    SplitSnapshot,
    StageSnapshot,
)
from headrace.common.errors import CheckpointError
from headrace.state.kinds import KEYED
from headrace.state.version import VersionRef
from tests.checkpoint.manifests import manifest


@pytest.mark.parametrize("format_version", [2, 3])
def test_manifests_of_earlier_formats_are_read(format_version: int) -> None:
    """As they were written before stages knew kinds of state, and stage 0."""
    version = VersionRef(1, 0, 1, name="1-0-1-0-aa.state", files=("1-0-1-0-aa.state",))
    progress = {"op": [-5, 7], "other": [1, 2]}
    document = {
        "format": format_version,
        "epoch": 1,
        "generation": 0,
        "job_id": "id",
        "job_name": "job",
        "max_parallelism": 128,
        "processing_time": 1000,
        "sources": {"src": {"enumerator": {"seen": 3}, "splits": [["split", 0, [1, "x"], {}, True]]}},
        "stages": [
            {
                "operators": ["op", "other"],
                "stateful": ["op"],
                "partitions": [
                    {"version": version.to_json(), "progress": progress, "timer": 99},
                    {"version": version.to_json(), "progress": {"other": [3, 4]}, "timer": None},
                ],
                "max_parallelism": {"op": 7},
            }
        ],
        "pending": [],
        "held": {},
        "finished": False,
        "counters": {},
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    read = Manifest.from_bytes(body[:-1] + b',"checksum":"%08x"}' % zlib.crc32(body), "1.json")
    assert read.sources == {"src": SourceSnapshot({"seen": 3}, (SplitSnapshot("split", 0, [1, "x"], {}, True),))}
    first, second = OperatorProgress(-5, 7), OperatorProgress(1, 2)
    assert read.stages == (
        StageSnapshot(),
        StageSnapshot(
            {"op": OperatorSnapshot(1, 7, KEYED), "other": OperatorSnapshot(2, 128)},
            (
                PartitionSnapshot(version, {"op": first, "other": second}, 99),
                PartitionSnapshot(version, {"other": OperatorProgress(3, 4)}),
            ),
        ),
    )
    assert Manifest.from_bytes(read.to_bytes(), "2.json") == read


def test_every_changed_byte_is_noticed() -> None:
    content = manifest(1, "1-0-1-0-aa.state").to_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(CheckpointError):
            Manifest.from_bytes(bytes(changed), "name")
        with pytest.raises(CheckpointError):
            Manifest.from_bytes(content[:position], "name")


def test_state_inside_a_manifest_is_compressed() -> None:
    inside = VersionRef(1, 0, 1, inline=b"layout " * 1_000 + bytes(range(256)))
    empty = VersionRef(1, 1, 1)
    for ref in (inside, empty):
        assert VersionRef.from_json(ref.to_json()) == ref
    assert len(json.dumps(inside.to_json())) < 800
    with pytest.raises(ValueError, match="cannot be unpacked"):
        VersionRef.from_json({**inside.to_json(), "packed": "AAAA"})
