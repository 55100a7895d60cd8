"""The bytes of manifests: those of earlier formats are read, and damage is noticed."""

from __future__ import annotations

import json

import pytest

from headrace.checkpoint.manifest import (
    Manifest,
)
from headrace.common.errors import CheckpointError
from headrace.state.state_file import VersionRef
from tests.checkpoint.manifests import manifest


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
