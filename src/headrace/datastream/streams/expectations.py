"""What programs expect of records: ``stream.expect(name, condition, violations)``."""

from collections.abc import Callable
from typing import Any, Literal

from headrace.common.errors import InvalidProgramError, InvalidTypeError, expect, refused, shown
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.datastream.functions import FilterFunction
from headrace.datastream.streams.checks import bound_condition, check_condition, check_function
from headrace.expressions import Expression
from headrace.graph.row_specs import ExpectationSpec
from headrace.operators.expectations import BY_NAME, OnViolation
from headrace.operators.functions import method_of

Violations = Literal["count", "drop", "fail", "hold"] | OutputTag
"""What becomes of records that violate an expectation."""


def expectation_spec(
    record_type: TypeInformation, name: str, condition: Callable[..., Any] | object, violations: Violations
) -> ExpectationSpec:
    """The spec of an expectation of the records of a stream.

    Raises:
        InvalidTypeError: when an argument is of the wrong kind, or there is no such field.
        InvalidProgramError: when the name is empty, or there is no such way to treat violations.
    """
    expect(name, str, "expect")
    if not name.strip():
        raise refused("an expectation needs a name, which metrics and errors show")
    on_violation, tag = _treatment(violations)
    if isinstance(condition, Expression):
        return ExpectationSpec(name, bound_condition(condition, record_type, "expect"), on_violation, tag)
    check_function(condition, FilterFunction, "expect", otherwise=', or a condition such as col("amount") > 0')
    check_condition(method_of(condition, "filter"), "expect")
    return ExpectationSpec(name, condition, on_violation, tag)


def _treatment(violations: object) -> tuple[OnViolation, OutputTag | None]:
    if isinstance(violations, OutputTag):
        return OnViolation.DEAD_LETTER, violations
    if not isinstance(violations, str) or violations not in BY_NAME:
        known = ", ".join(map(repr, BY_NAME))
        error = InvalidProgramError if isinstance(violations, str) else InvalidTypeError
        raise refused(f"expect: violations is one of {known}, or an OutputTag, not {shown(violations)}", error)
    return BY_NAME[violations], None
