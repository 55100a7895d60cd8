"""Rules: patterns with an id, which come as records of a stream and may change while a job runs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.cep.compiler import compile_pattern
from headrace.cep.conditions import Given
from headrace.cep.pattern import Pattern
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError, refused
from headrace.common.other_names import alike
from headrace.common.pickling import pickle_by_value
from headrace.common.typeinfo import DataclassTypeInfo, NamedTupleTypeInfo, TypeInformation
from headrace.common.types import Row
from headrace.datastream.streams.checks import bound_condition
from headrace.expressions import Expression
from headrace.operators.pattern.automaton import Automaton, StateType
from headrace.operators.pattern.conditions import Condition, EventExpression, EventType, TakenExpression
from headrace.operators.pattern.iterative_conditions import row_condition
from headrace.operators.pattern.rules import RuleChange

_FIELDS: Final = ("id", "pattern", "conditions", "version")


@dataclass(frozen=True, slots=True)
class PatternRule:
    """A rule: what is looked for under an id; a record of the stream that ``CEP.dynamic_patterns`` takes.

    A rule with an id that is known takes the place of the one before; a rule that says what holds already changes
    nothing. It is looked at by the job: one that is wrong is rejected there, and fails nothing.

    Attributes:
        id: the id of the rule.
        pattern: the pattern, the text of one as :meth:`.Pattern.parse` takes it, or JSON as :meth:`.Pattern.from_json`
            does; None withdraws the rule.
        conditions: the conditions that a text names: expressions, texts of expressions, or functions.
        version: the version, which has to be above the one before; by default that and 1, from 1 on.

    Examples:
        >>> from headrace.cep import PatternRule
        >>> rule = PatternRule(
        ...     "card fraud",
        ...     "small followed_by large within 10 min",
        ...     {"small": "amount < 1.0", "large": "amount > 500.0"},
        ... )
        >>> PatternRule.from_json(rule.to_json()).id
        'card fraud'
        >>> PatternRule.withdrawn("card fraud").to_json()
        '{"id": "card fraud", "pattern": null}'
    """

    id: str
    pattern: Pattern[Any] | str | Mapping[str, Any] | list[Any] | None
    conditions: Mapping[str, Given[Any]] = field(default_factory=dict)
    version: int | None = None

    @staticmethod
    def withdrawn(id: str) -> PatternRule:
        """A record that withdraws a rule."""
        return PatternRule(id, None)

    @staticmethod
    def from_json(text: str) -> PatternRule:
        """The rule that a text says, as :meth:`to_json` gives it.

        Raises:
            InvalidProgramError: when it is no JSON of a rule. The pattern in it is not looked at.
        """
        try:
            source = json.loads(text)
        except ValueError as error:
            raise InvalidProgramError(f"a rule is JSON: {error}") from None
        return _of_mapping(source)

    def to_json(self) -> str:
        """The rule as JSON.

        Raises:
            InvalidProgramError: when a condition is no expression.
        """
        pattern: Any = self.pattern
        if isinstance(pattern, Pattern):
            pattern = json.loads(pattern.to_json())
        source = {"id": self.id, "pattern": pattern}
        if self.conditions:
            source["conditions"] = {name: _text_of(given) for name, given in self.conditions.items()}
        if self.version is not None:
            source["version"] = self.version
        return json.dumps(source, ensure_ascii=False)


def _text_of(condition: Given[Any]) -> str:
    if isinstance(condition, str):
        return condition
    if isinstance(condition, Expression):
        return repr(condition)
    name = getattr(condition, "__qualname__", None) or type(condition).__qualname__
    raise InvalidProgramError(
        f"the condition {name} is no expression over columns, and has no text: say it with col(...), or send the "
        "PatternRule itself"
    )


def _of_mapping(source: object) -> PatternRule:
    if not isinstance(source, Mapping):
        raise InvalidProgramError(f"a rule is an object with {', '.join(_FIELDS)}, not {source!r}")
    unknown = [name for name in source if name not in _FIELDS]
    if unknown:
        raise InvalidProgramError(f"a rule has no field {unknown[0]!r}{alike(str(unknown[0]), list(_FIELDS))}")
    if "id" not in source or "pattern" not in source:
        raise InvalidProgramError("a rule needs an id and a pattern, which is null to withdraw it")
    return PatternRule(source["id"], source["pattern"], source.get("conditions") or {}, source.get("version"))


@dataclass(frozen=True, slots=True)
class PatternRuleReader:
    """Reads rules in the tasks of a job.

    Attributes:
        event_type: the type of the events.
    """

    event_type: TypeInformation

    def read(self, record: Any) -> RuleChange:
        """Return what a record says.

        Raises:
            InvalidProgramError: when it says no rule.
        """
        rule = _rule_of(record)
        id_: Any = rule.id
        version: Any = rule.version
        if not isinstance(id_, str) or not id_:
            raise InvalidProgramError(f"the id of a rule is a text that is not empty, not {id_!r}")
        if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 1):
            raise InvalidProgramError(f"the version of a rule is a whole number from 1 on, not {version!r}")
        if rule.pattern is None:
            return RuleChange(rule.id, version, None)
        try:
            return RuleChange(rule.id, version, _stored(_pattern_of(rule)))
        except HeadraceError as error:
            raise InvalidProgramError(_without_line(error)) from error

    def compile(self, pattern: str | bytes) -> Automaton:
        """Return a pattern as it is at work.

        Raises:
            InvalidProgramError: when it is no pattern for the events.
        """
        try:
            made = Pattern.from_json(pattern) if isinstance(pattern, str) else pickle.loads(pattern)
            return compiled(made, self.event_type)
        except HeadraceError as error:
            raise InvalidProgramError(_without_line(error)) from error

    def text_of(self, record: Any) -> str:
        """A record as text, for the error that names it."""
        if isinstance(record, PatternRule):
            try:
                return record.to_json()
            except HeadraceError:
                return repr(record)
        return record if isinstance(record, str) else repr(record)


def compiled(pattern: Pattern[Any], event_type: TypeInformation) -> Automaton:
    """A compiled pattern, whose expressions fit the events.

    Raises:
        InvalidProgramError: when it is no pattern that can be matched.
        InvalidTypeError: when an expression does not fit.
    """
    automaton = compile_pattern(pattern)
    for condition in automaton.event_conditions:
        for leaf in condition.leaves():
            if isinstance(leaf, EventExpression) and isinstance(leaf.expression, Expression):
                bound_condition(leaf.expression, event_type, "where")
            elif isinstance(leaf, EventType):
                _check_subtype(leaf.kind, event_type)
    return _bound(automaton, event_type)


def _check_subtype(kind: type, event_type: TypeInformation) -> None:
    """Refuse a class that no event has, since they are all of one class, which their type keeps."""
    if not isinstance(event_type, DataclassTypeInfo | NamedTupleTypeInfo):
        return
    decides_itself = type(kind).__instancecheck__ is not type.__instancecheck__  # as abstract classes do
    if not decides_itself and not issubclass(event_type.record_class, kind):
        name = event_type.record_class.__name__
        raise refused(
            f"subtype(): the type of the events is that of {name} itself, and none is a {kind.__name__}: declare "
            "Types.PICKLED_BYTE_ARRAY() for a stream of several classes",
            InvalidTypeError,
        )


def _bound(automaton: Automaton, event_type: TypeInformation) -> Automaton:
    """The same automaton, with its iterative expressions bound to the type of the events."""
    stages = tuple(dict.fromkeys(state.stage for state in automaton.states if state.kind is not StateType.FINAL))
    bound: dict[Condition, Condition] = {}

    def leaf_bound(leaf: Condition) -> Condition:
        if isinstance(leaf, TakenExpression) and leaf not in bound:
            bound[leaf] = row_condition(leaf.expression, event_type, stages)
        return bound.get(leaf, leaf)

    try:
        return automaton.with_leaves(leaf_bound)
    except InvalidTypeError as error:
        raise refused(f"where: {error}", InvalidTypeError) from None


def _rule_of(record: Any) -> PatternRule:
    if isinstance(record, PatternRule):
        return record
    if isinstance(record, str):
        return PatternRule.from_json(record)
    return _of_mapping(record.as_dict() if isinstance(record, Row) else record)


def _pattern_of(rule: PatternRule) -> Pattern[Any]:
    source = rule.pattern
    if isinstance(source, str) and not source.lstrip().startswith(("{", "[")):
        return Pattern.parse(source, rule.conditions)
    if rule.conditions:
        raise InvalidProgramError("conditions belong to a pattern that is a text, which names them")
    if isinstance(source, Pattern):
        return source
    if isinstance(source, str | Mapping | list):
        return Pattern.from_json(source)
    raise InvalidProgramError(f"a pattern is a Pattern, a text or JSON, not {source!r}")


def _stored(pattern: Pattern[Any]) -> str | bytes:
    """A pattern as JSON; pickled where it has functions of the user."""
    try:
        return pattern.to_json()
    except InvalidProgramError:
        return pickle_by_value(pattern)


def _without_line(error: HeadraceError) -> str:
    """The message of an error without the line of the program at its end: a rule has none."""
    message = str(error)
    start, _, last = message.rpartition("\n")
    return start if last.startswith("  at ") else message
