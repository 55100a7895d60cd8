"""Precedences of operators, in Calcite's numbers, for the parser and for parentheses in text."""

from typing import Final

from headrace.table.parse.tree.expressions import (
    Between,
    Binary,
    BinaryOperator,
    InList,
    InQuery,
    IsTest,
    Like,
    Logical,
    Quantified,
    SqlExpression,
    Unary,
    UnaryOperator,
)
from headrace.table.parse.tree.json import JsonFormatted

MULTISET: Final = 14
OR: Final = 22
AND: Final = 24
NOT: Final = 26
IS: Final = 28
COMPARISON: Final = 30
PATTERN: Final = 32
SUM: Final = 40
PRODUCT: Final = 60
SIGN: Final = 80
ITEM: Final = 100
OPERAND: Final = 101
"""The precedence of a plain operand, higher than that of any operator."""

ARITHMETIC: Final = {
    BinaryOperator.PLUS: SUM,
    BinaryOperator.MINUS: SUM,
    BinaryOperator.TIMES: PRODUCT,
    BinaryOperator.DIVIDE: PRODUCT,
    BinaryOperator.MODULO: PRODUCT,
    BinaryOperator.CONCAT: PRODUCT,
}
"""Precedences of arithmetic operators; others are comparisons, except those of multisets."""

_BY_CLASS: Final[dict[type[SqlExpression], int]] = {
    IsTest: IS,
    JsonFormatted: IS,
    Quantified: COMPARISON,
    Between: PATTERN,
    Like: PATTERN,
    InList: PATTERN,
    InQuery: PATTERN,
}


def of_operator(operator: BinaryOperator) -> int:
    """The precedence of a binary operator."""
    return MULTISET if operator.value.startswith("MULTISET") else ARITHMETIC.get(operator, COMPARISON)


def of_expression(node: SqlExpression) -> int:
    """The precedence of the outermost operator of an expression."""
    if isinstance(node, Binary):
        return of_operator(node.operator)
    if isinstance(node, Logical):
        return AND if node.is_and else OR
    if isinstance(node, Unary):
        return NOT if node.operator is UnaryOperator.NOT else SIGN
    return _BY_CLASS.get(type(node), OPERAND)
