"""Complex event processing: patterns of events, and what happens when they are found.

Flink has it for Java alone; names are Flink's in Python's spelling.
"""

from headrace.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from headrace.cep.conditions import IterativeCondition, SimpleCondition
from headrace.cep.pattern import GroupPattern, Pattern
from headrace.cep.quantifier import Quantifier
from headrace.cep.within_type import WithinType
from headrace.operators.pattern.conditions import ConditionContext
from headrace.operators.pattern.skip_strategies import SkipStrategy

__all__ = [
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "GroupPattern",
    "IterativeCondition",
    "Pattern",
    "Quantifier",
    "SimpleCondition",
    "SkipStrategy",
    "WithinType",
]
