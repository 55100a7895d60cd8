"""``VECTOR_SEARCH``: the relation of the rows of a table whose vectors are the most similar to one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from headrace.common.config_options import ConfigOption, boolean, choice
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Scalar
from headrace.table.logical.schema import Field, Schema, unique_names

METRIC: Final = ConfigOption(
    "metric", choice("cosine", "dot-product", "euclidean"), "cosine", "What makes two vectors similar."
)
ASYNC: Final = ConfigOption("async", boolean, False, "Whether many requests are made at a time.")

SCORE: Final = "score"
"""The column of similarities."""


@dataclass(frozen=True)
class VectorSearch(Relation):
    """``VECTOR_SEARCH(TABLE t, DESCRIPTOR(column), vector, count, config)``.

    Attributes:
        input: the table.
        vectors: the column of its vectors.
        vector: what they are compared with: a scalar of the outer row, of a ``LogicalCorrelate``, or a constant.
        count: how many rows are found, at most.
        config: the configuration of the call.
    """

    input: Relation
    vectors: int
    vector: Scalar
    count: int
    config: tuple[tuple[str, str], ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return with_score(self.input.schema)


def with_score(given: Schema) -> Schema:
    """The columns of a table that is searched, with the score behind them, whose name is made unique."""
    *_, name = unique_names((*given.names, SCORE))
    return Schema((*given, Field(name, AtomicType(TypeRoot.DOUBLE).not_null())))
