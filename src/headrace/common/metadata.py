"""Metadata as fields, chosen by name as in Flink's SQL: what is known about a record besides its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.common.arguments import refused
from headrace.common.other_names import alike
from headrace.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation


def chosen_metadata(chosen: Mapping[str, str] | Sequence[str], known: Mapping[str, object], of: str) -> dict[str, str]:
    """By name of the field, the metadata that it holds.

    Args:
        chosen: names of metadata, or fields by name and the metadata that each holds.
        known: what there is, by name.
        of: what it is known of, for errors.

    Raises:
        InvalidProgramError: when there is no such metadata.
    """
    fields = dict(chosen) if isinstance(chosen, Mapping) else {name: name for name in chosen}
    for name in fields.values():
        if name not in known:
            told = alike(name, known) or f": there are {', '.join(known)}"
            raise refused(f"{of} have no metadata {name!r}{told}")
    return fields


def row_type(fields: Sequence[tuple[str, TypeInformation]], advice: str, *, changelog: bool) -> TypeInformation:
    """The type of rows of some fields.

    Raises:
        InvalidProgramError: when two have one name; ``advice`` ends the message.
    """
    names = [name for name, _ in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refused(f"two fields are called {twice!r}: {advice}")
    return Types.ROW_NAMED(names, [of for _, of in fields], changelog=changelog)
