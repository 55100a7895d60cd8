"""Compilation of scalars to expressions of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError
from headrace.expressions.evaluation import Bound
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.logical.errors import NoCastError, PlanningError
from headrace.table.logical.scalars import Scalar
from headrace.table.logical.schema import Schema
from headrace.table.options import LOCAL_TIME_ZONE
from headrace.table.physical.scalar_text import infix_text

if TYPE_CHECKING:
    from headrace.table.physical.translation import GraphBuilder


def compiled(scalar: Scalar, schema: Schema, builder: GraphBuilder) -> Bound:
    """A scalar over columns as an expression of the graph."""
    return compiled_all((scalar,), schema, builder.settings)[0]


def compiled_all(scalars: Sequence[Scalar], schema: Schema, settings: Configuration) -> list[Bound]:
    """Scalars over columns as expressions of the graph.

    Raises:
        NoCastError: when there is no such cast, and a function in place of it.
        PlanningError: when a scalar cannot be computed for another reason.
    """
    compiler = ExpressionCompiler(lambda scalar: infix_text(scalar, schema.names), settings.get(LOCAL_TIME_ZONE))
    try:
        return [compiler.compile(scalar) for scalar in scalars]
    except NoCastError:
        raise
    except InvalidProgramError as error:
        raise PlanningError(str(error)) from error
