"""Sources of upserts get a ``ChangelogNormalize`` above them, which adds the rows before updates.

So do sources of changes that may come twice: it leaves out the second ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.table.logical.relations import LogicalWatermarkAssigner, Project, Relation, Scan
from headrace.table.logical.scalars import InputRef, Scalar
from headrace.table.logical.schema import Schema
from headrace.table.logical.vector_search import VectorSearch
from headrace.table.rules.temporal import LogicalLookupJoin


@dataclass(frozen=True)
class Normalize(Relation):
    """The normalized changelog of a table whose source gives upserts, or changes twice.

    Attributes:
        key: the columns of the key.
        condition: the filter that was pushed down into it; a row that no longer meets it is deleted.
        is_shared: whether the query reads the table more than once, and so has one such node for it in the end.
    """

    input: Relation
    key: tuple[int, ...]
    condition: Scalar | None = None
    is_shared: bool = False

    @property
    def schema(self) -> Schema:
        return self.input.schema


def with_normalized_sources(relation: Relation, is_normalized: Callable[[Scan], bool]) -> Relation:
    """The relation with the node above each such source, its computed columns and its watermark.

    Args:
        relation: the relation.
        is_normalized: whether a table's source gives what has to be normalized.
    """
    made = _normalized(relation, is_normalized)
    found = [each.input for each in made.walk() if isinstance(each, Normalize)]
    if len(found) < 2:
        return made
    return made.transform(
        lambda each: (
            replace(each, is_shared=True) if isinstance(each, Normalize) and found.count(each.input) > 1 else each
        )
    )


def _normalized(relation: Relation, is_normalized: Callable[[Scan], bool]) -> Relation:
    key = _key_of_table(relation, is_normalized)
    if key is not None:
        return Normalize(relation, key)
    if isinstance(relation, VectorSearch):  # its table is not scanned
        return relation
    if isinstance(relation, LogicalLookupJoin):  # nor is the right one
        return replace(relation, left=_normalized(relation.left, is_normalized))
    inputs = [_normalized(each, is_normalized) for each in relation.inputs]
    return relation.with_parts(Relation, inputs)


def _key_of_table(relation: Relation, is_normalized: Callable[[Scan], bool]) -> tuple[int, ...] | None:
    """The primary key of a table, as columns of its relation; None for other relations."""
    if isinstance(relation, Scan):
        return relation.primary_key if relation.primary_key and is_normalized(relation) else None
    if isinstance(relation, LogicalWatermarkAssigner):
        return _key_of_table(relation.input, is_normalized)
    if isinstance(relation, Project) and relation.is_of_table:
        key = _key_of_table(relation.input, is_normalized)
        places = {each.index: place for place, each in enumerate(relation.expressions) if isinstance(each, InputRef)}
        return None if key is None else tuple(places[index] for index in key)
    return None
