"""The formats of manifests: which there were, what was different in each, and how one becomes the next."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.common.errors import CheckpointError
from headrace.state.backend import DEFAULT_BACKEND
from headrace.state.kinds import KEYED, NO_STATE, names_of
from headrace.state.version import packed

Document = dict[str, Any]

FORMAT_VERSION: Final = 5
"""Raised when a headrace of an older version could not read a manifest; what it lacks is then added to ``_NEXT``."""


def upgraded(document: Document, name: str) -> Document:
    """A manifest's document as the present format has it.

    Args:
        document: as it was read.
        name: the manifest.

    Raises:
        CheckpointError: when it is of a newer version of headrace, or of one before all that can be read.
    """
    if document["format"] not in {*_NEXT, FORMAT_VERSION}:
        raise CheckpointError(
            f"manifest {name} has format {document['format']}, this headrace reads formats {min(_NEXT)} to "
            f"{FORMAT_VERSION}: go on with the version that wrote it, or start with a fresh checkpoint directory and a "
            "fresh output"
        )
    for older in range(document["format"], FORMAT_VERSION):
        document = {**_NEXT[older](document), "format": older + 1}
    return document


def _with_compressed_state(document: Document) -> Document:
    """Format 3: state inside a manifest is compressed."""
    return {**document, "stages": [_with_versions_packed(stage) for stage in document["stages"]]}


def _with_versions_packed(stage: Document) -> Document:
    partitions = [
        part if part["version"] is None else {**part, "version": _with_state_packed(part["version"])}
        for part in stage["partitions"]
    ]
    return {**stage, "partitions": partitions}


def _with_state_packed(version: Document) -> Document:
    """Also of those that were written as the present ones are, before the number of the format was raised."""
    rest = {name: value for name, value in version.items() if name != "inline"}
    return {**rest, "packed": packed(base64.b64decode(version["inline"]))} if "inline" in version else version


def _with_kinds_of_state(document: Document) -> Document:
    """Format 4: stage 0 is the first of the stages, and an operator says its parallelism and kinds of state.

    Before, the later stages alone were listed, and each named its operators, those with keyed state (``stateful``), and
    the numbers of key groups that were not the job's.
    """
    stages = [_with_operators(stage, document["max_parallelism"]) for stage in document["stages"]]
    return {**document, "stages": [{"operators": {}, "partitions": []}, *stages] if stages else []}


def _with_operators(stage: Document, max_parallelism: int) -> Document:
    own = stage.get("max_parallelism", {})
    operators = {
        uid: [
            sum(uid in partition["progress"] for partition in stage["partitions"]),
            own.get(uid, max_parallelism),
            names_of(KEYED if uid in stage["stateful"] else NO_STATE),
        ]
        for uid in stage["operators"]
    }
    return {"operators": operators, "partitions": stage["partitions"]}


def _with_a_backend(document: Document) -> Document:
    """Format 5: a state backend has a name. There was one before, which is the default one now."""
    return {"state_backend": DEFAULT_BACKEND, **document}


_NEXT: Final[Mapping[int, Callable[[Document], Document]]] = {
    2: _with_compressed_state,
    3: _with_kinds_of_state,
    4: _with_a_backend,
}
"""What makes a document of the next format of one of an earlier format, for each that can be read."""
