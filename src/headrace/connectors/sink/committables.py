"""What writers hand over to committers, as it is in a checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = Any


def as_in_a_checkpoint(committables: Iterable[Any]) -> list[Json]:
    """Committables as they come back from a checkpoint: tuples are lists then, and the keys of dicts are text.

    A committer gets them so at once. Else one that relies on more than JSON would find out after its first crash.

    Raises:
        InvalidProgramError: when they are no JSON; the message shows the one that is wrong.
    """
    return [as_json(committable) for committable in committables]


def as_json(value: Any) -> Json:
    """One committable, or what of the output is in progress, as it comes back from a checkpoint.

    Raises:
        InvalidProgramError: when it is no JSON.
    """
    try:
        found: Json = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(
            f"{value!r:.200} cannot be stored in a checkpoint ({error}): make committables of text, numbers, lists "
            "and dicts"
        ) from error
    return found
