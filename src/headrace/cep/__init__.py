"""Complex event processing: patterns of events, and what happens when they are found.

Flink has it for Java alone; names are Flink's in Python's spelling.
"""

from headrace.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from headrace.cep.conditions import IterativeCondition, SimpleCondition
from headrace.cep.definition import WithinType
from headrace.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from headrace.cep.pattern import GroupPattern, Pattern
from headrace.cep.pattern_stream import CEP, PatternStream
from headrace.cep.rules import PatternRule
from headrace.common.public_module import public_module
from headrace.operators.pattern.automaton import SkipStrategy
from headrace.operators.pattern.conditions import ConditionContext

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "EventComparator",
    "GroupPattern",
    "IterativeCondition",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternRule",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "SimpleCondition",
    "SkipStrategy",
    "TimedOutPartialMatchHandler",
    "WithinType",
]

public_module(__name__)
