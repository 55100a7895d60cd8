"""Patterns say what events they are about: ``Pattern[Payment]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from headrace.cep import CEP, AfterMatchSkipStrategy, ConditionContext, IterativeCondition, Pattern, SimpleCondition
from headrace.common import Duration
from headrace.datastream import DataStream
from headrace.expressions import col


@dataclass
class Payment:
    amount: float


@dataclass
class Refund(Payment):
    reason: str


class IsLarge(SimpleCondition[Payment]):
    def filter(self, value: Payment) -> bool:
        return value.amount > 500


class IsOfText(SimpleCondition[str]):
    def filter(self, value: str) -> bool:
        return value > ""


class IsLarger(IterativeCondition[Payment]):
    def filter(self, value: Payment, ctx: ConditionContext) -> bool:
        return all(value.amount > before.amount for before in ctx.events("small"))


pattern: Pattern[Payment] = (
    Pattern[Payment]
    .begin("small", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda payment: payment.amount < 1.0)
    .followed_by("large")
    .where(IsLarge())
    .or_(col("amount") > 500)
    .one_or_more(Duration.of_minutes(1))
    .next("larger")
    .where(IsLarger())
    .within(Duration.of_minutes(10))
)
Pattern[Payment].begin("small").where(IsOfText())  # error: arg-type
Pattern[Payment].begin("small").times("2")  # error: arg-type
group = Pattern[Payment].begin(pattern).times(2)
followed: Pattern[Payment] = pattern.followed_by(group).followed_by_any(Pattern[Payment].begin("end"))
followed.followed_by(Pattern[str].begin("end"))  # error: arg-type

untyped = Pattern.begin("small").where(lambda payment: payment.amount < 1).next("large").where(col("amount") > 500)
refunds = Pattern[Payment].begin("refund").subtype(Refund).where(lambda refund: refund.reason > "").next("large")


class IsBad(SimpleCondition):
    def filter(self, value: Refund) -> bool:
        return value.reason == "bad"


def finds(payments: DataStream[Payment], words: DataStream[str]) -> None:
    assert_type(CEP.pattern(payments, pattern).select(lambda match: match["large"][0].amount), DataStream[float])
    CEP.pattern(payments, pattern).select(lambda match: match["large"][0].reason, str)  # error: attr-defined
    CEP.pattern(words, pattern)  # error: misc
    CEP.pattern(payments, untyped.or_(IsBad())).select(lambda match: match["small"][0].amount, float)
    CEP.pattern(payments, refunds).select(lambda match: match["refund"][0].amount, float)
