"""Specs of operators that look at one row: they make several of it, check it, or see what it does in a changelog."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.common.types import RowKind
from headrace.expressions import Bound
from headrace.graph.specs import InputSchema, OperatorParameters, OperatorSpec, OutputSchema, PassingSpec, output_of
from headrace.operators.base import Operator
from headrace.operators.constraints import Enforcement, LengthLimit, Place
from headrace.operators.expectations import OnViolation
from headrace.operators.record_times import RecordTime
from headrace.operators.unnest import CollectionKind


@dataclass(frozen=True, slots=True)
class UnnestSpec(OperatorSpec):
    """A row for each element of a collection, with the columns of the row that it is of before it.

    Attributes:
        collection: gives the collections.
        collection_kind: what they are.
        result_type: the type of the rows.
        with_ordinality: whether the place of the element is the last column.
        keeps_empty: whether a row without elements is kept, with nulls in their place.
        condition: which rows with their elements are there.
    """

    kind: ClassVar[str] = "Unnest"
    ignores_event_time: ClassVar[bool] = True
    collection: Bound
    collection_kind: CollectionKind
    result_type: TypeInformation
    with_ordinality: bool = False
    keeps_empty: bool = False
    condition: Bound | None = None

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.result_type, has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.unnest import UnnestOperator

        return UnnestOperator(
            self.collection,
            self.collection_kind,
            self.result_type,
            with_ordinality=self.with_ordinality,
            keeps_empty=self.keeps_empty,
            condition=self.condition,
        )


@dataclass(frozen=True, slots=True)
class ConstraintsSpec(PassingSpec):
    """Sees to it that rows meet the demands of a table.

    Attributes:
        required: what must not be null.
        of_nulls: what becomes of rows with a null there.
        limits: the lengths of texts and bytes.
        of_lengths: what becomes of rows whose values are of another length.
    """

    kind: ClassVar[str] = "ConstraintEnforcer"
    ignores_event_time: ClassVar[bool] = True
    required: tuple[Place, ...]
    of_nulls: Enforcement
    limits: tuple[LengthLimit, ...] = ()
    of_lengths: Enforcement = Enforcement.TRIM_PAD

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.constraints import ConstraintsOperator

        return ConstraintsOperator(self.required, self.of_nulls, self.limits, self.of_lengths)


@dataclass(frozen=True, slots=True)
class ExpectationSpec(PassingSpec):
    """Expects every record to meet a condition.

    Attributes:
        name: the name of the expectation.
        condition: a bound expression, or a function of a record.
        on_violation: what becomes of a record that violates it.
        dead_letter: the side output that such records go to, if they do.
        has_upserts: whether updates come without the rows before them.
    """

    kind: ClassVar[str] = "Expectation"
    ignores_event_time: ClassVar[bool] = True
    name: str
    condition: object
    on_violation: OnViolation
    dead_letter: OutputTag | None = None
    has_upserts: bool = False

    @property
    def functions(self) -> Sequence[object]:
        return () if isinstance(self.condition, Bound) else (self.condition,)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        tag, found = self.dead_letter, PassingSpec.outputs(self, inputs)
        return found if tag is None else replace(found, side_types={tag.tag_id: inputs[0].record_type})

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.expectations import ExpectationOperator

        tag_id = "" if self.dead_letter is None else self.dead_letter.tag_id
        return ExpectationOperator(self.name, self.condition, self.on_violation, tag_id, has_upserts=self.has_upserts)


@dataclass(frozen=True, slots=True)
class ReplicateRowsSpec(OperatorSpec):
    """Each row as often as its first column says, with its other columns once more behind.

    Attributes:
        result_type: the type of the rows.
    """

    kind: ClassVar[str] = "ReplicateRows"
    ignores_event_time: ClassVar[bool] = True
    result_type: TypeInformation

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.result_type, has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.unnest import ReplicateRowsOperator

        return ReplicateRowsOperator(self.result_type)


KIND_NAMES: Final = tuple((kind, kind.name) for kind in RowKind)


@dataclass(frozen=True, slots=True)
class KindsToColumnSpec(OperatorSpec):
    """Every record as an insertion, with what it does in a changelog as a text in a column before the others.

    Attributes:
        result_type: the type of the records with that column.
        codes: the text of each kind that there is one for; records of other kinds are left out.
    """

    kind: ClassVar[str] = "KindsToColumn"
    ignores_event_time: ClassVar[bool] = True
    result_type: TypeInformation
    codes: tuple[tuple[RowKind, str], ...] = KIND_NAMES

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return output_of(self.result_type)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.row_kinds import KindsToColumnOperator

        return KindsToColumnOperator(self.result_type, dict(self.codes))


@dataclass(frozen=True, slots=True)
class ColumnToKindsSpec(OperatorSpec):
    """The changes that a column of texts says that records are, without that column.

    Attributes:
        column: its index.
        result_type: the type of the records without it.
        codes: the kind that each text stands for.
    """

    kind: ClassVar[str] = "ColumnToKinds"
    ignores_event_time: ClassVar[bool] = True
    column: int
    result_type: TypeInformation
    codes: tuple[tuple[RowKind, str], ...] = KIND_NAMES

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.result_type, has_changes=True)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.row_kinds import ColumnToKindsOperator

        return ColumnToKindsOperator(self.column, self.result_type, {code: kind for kind, code in self.codes})


@dataclass(frozen=True, slots=True)
class KeepRowKindsSpec(PassingSpec):
    """Keeps the rows of some kinds.

    Attributes:
        kinds: the kinds.
    """

    kind: ClassVar[str] = "KeepRowKinds"
    ignores_event_time: ClassVar[bool] = True
    kinds: tuple[RowKind, ...]

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        (records,) = inputs
        return OutputSchema(records.record_type, has_changes=records.has_changes and self.kinds != (RowKind.INSERT,))

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.row_kinds import KeepRowKindsOperator

        return KeepRowKindsOperator(self.kinds)


@dataclass(frozen=True, slots=True)
class RecordTimesSpec(OperatorSpec):
    """Adds the times to each record at which it is processed.

    Attributes:
        times: which times.
        names: the names of their columns.
    """

    kind: ClassVar[str] = "RecordTimes"
    times: tuple[RecordTime, ...]
    names: tuple[str, ...]

    @property
    def is_deterministic(self) -> bool:
        return not {RecordTime.PROCESSING_TIME, RecordTime.RANDOM} & set(self.times)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        given = inputs[0].record_type
        added = tuple(Types.LONG() if time is RecordTime.RANDOM else Types.TIMESTAMP_LTZ() for time in self.times)
        type_ = RowTypeInfo((*given.field_types, *added), (*given.field_names, *self.names))
        return OutputSchema(type_, has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.record_times import RecordTimesOperator

        return RecordTimesOperator(self.times, parameters.output_type)
