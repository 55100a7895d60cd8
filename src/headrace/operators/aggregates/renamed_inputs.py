"""Built-in aggregates whose fields have other names now: what they have stored goes by names, and stays where it is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headrace.operators.aggregates.top import BY
from headrace.state.renamed_fields import NOTHING_RENAMED, RenamedFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.operators.aggregates.aggregator_list import AggregatorList

_FIELD: Final = re.compile(r"""col\("([^"]+)"\)""")
"""A field in the text of an expression."""


def with_new_names(described: Sequence[dict[str, Any]], renamed: RenamedFields) -> list[dict[str, Any]]:
    """The description of stored aggregators, as it would be with the names that fields have now."""
    return [
        {**each, "name": _renamed(each["name"], renamed.names)} if "name" in each else dict(each) for each in described
    ]


def renamed_columns(aggregators: AggregatorList, renamed: RenamedFields) -> RenamedFields:
    """Which columns of accumulators were called otherwise, as their fields were."""
    if not renamed:
        return NOTHING_RENAMED
    before = {new: old for old, new in renamed.names.items()}
    columns: dict[str, str] = {}
    named: Iterator[Any] = (each for each in aggregators.members if hasattr(each, "name"))
    for aggregator in named:
        former = replace(aggregator, name=_renamed(aggregator.name, before))
        columns |= {old: new for (old, _), (new, _) in zip(former.fields, aggregator.fields, strict=True)}
    return RenamedFields({old: new for old, new in columns.items() if old != new})


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """The name of what an aggregator looks at: that of a field, two fields, or the text of an expression."""
    if BY in name:
        return BY.join(_renamed(each, names) for each in name.split(BY))
    return names.get(name) or _FIELD.sub(lambda found: f'col("{names.get(found[1], found[1])}")', name)
