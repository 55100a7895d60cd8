"""The order of inner joins that costs least, by the estimated numbers of rows that are read, joined and emitted.

Inner joins that read each other's results are one set of relations with conditions. Of up to ten relations all trees
without cross products are compared; of more, the two whose join has the fewest rows are joined, again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from headrace.operators.join.results import JoinType
from headrace.table.functions.table import is_deterministic
from headrace.table.logical.join_keys import condition_of
from headrace.table.logical.relations import Filter, LogicalJoin, Project, Relation
from headrace.table.logical.scalars import Call, InputRef, Scalar, all_of, conjuncts, input_refs, moved
from headrace.table.rules.conditions import either
from headrace.table.rules.estimates import Estimates
from headrace.table.rules.push_down import with_filters_below

_MOST_COMPARED: Final = 10
"""The number of relations of which all trees are compared."""


def with_join_order(relation: Relation, estimates: Estimates) -> Relation:
    """The relation with its inner joins in the order that costs least, and semi joins below them where that is less."""
    if type(relation) is LogicalJoin and relation.kind in (JoinType.SEMI, JoinType.ANTI):
        below = _below_inner_joins(relation, estimates)
        if below is not None:
            return with_join_order(below, estimates)
    if not _is_free(relation):
        return relation.with_parts(Relation, [with_join_order(each, estimates) for each in relation.inputs])
    assert isinstance(relation, LogicalJoin)
    joined = _JoinSet.of(relation).with_derived_conditions()
    parts = [with_join_order(each, estimates) for each in joined.relations]
    joined = replace(joined, relations=tuple(parts))
    if len(parts) < 3:
        return replace(relation, left=parts[0], right=parts[1], condition=condition_of(joined.conditions))
    return joined.restored(_OrderSearch(joined, estimates).best())


def _is_free(relation: Relation) -> bool:
    """Return whether a relation is an inner join that may be computed in another order."""
    if type(relation) is not LogicalJoin or relation.kind is not JoinType.INNER:
        return False
    is_plain = not relation.hints and relation.state_ttl == (None, None) and relation.correlation is None
    return is_plain and is_deterministic(relation.condition)


def _below_inner_joins(join: LogicalJoin, estimates: Estimates) -> Relation | None:
    """A semi or anti join on the columns of one input of inner joins, below these; None where it is better above."""
    inner, width = join.left, len(join.left.schema)
    project = inner if isinstance(inner, Project) else None
    if project is not None and not all(isinstance(each, InputRef) for each in project.expressions):
        return None
    inner = inner if project is None else project.input
    if not _is_free(inner) or join.hints:
        return None
    assert isinstance(inner, LogicalJoin)
    read = {index for index in input_refs(join.condition) if index < width}
    places = {index: index if project is None else project.expressions[index].index for index in read}  # type: ignore[attr-defined]
    side, shift = _side_of(set(places.values()), len(inner.left.schema))
    if side is None or estimates.rows(side_of := (inner.left, inner.right)[side]) > estimates.rows(inner):
        return None
    count = len(side_of.schema)
    places = {index: at - shift for index, at in places.items()}
    places |= {width + at: count + at for at in range(len(join.right.schema))}
    kept = {index: places[index] for index in input_refs(join.condition)}
    below = replace(join, left=side_of, condition=moved(join.condition, kept), aliases=(None, None))
    made = replace(inner, left=below) if side == 0 else replace(inner, right=below)
    return made if project is None else replace(project, input=made)


def _side_of(columns: set[int], width: int) -> tuple[int | None, int]:
    """The input of a join that has all of some columns, and where its columns begin; None if there is none."""
    sides = {int(index >= width) for index in columns}
    if len(sides) != 1:
        return None, 0
    (side,) = sides
    return side, width * side


@dataclass(frozen=True)
class _JoinSet:
    """Relations that inner joins put together.

    Attributes:
        relations: the relations, in the order in which their columns come.
        conditions: the conditions, over the columns of all of them.
        top: the join of all of them.
    """

    relations: tuple[Relation, ...]
    conditions: tuple[Scalar, ...]
    top: Relation

    @staticmethod
    def of(relation: Relation) -> _JoinSet:
        """The relations below a join."""
        found, conditions = list[Relation](), list[Scalar]()
        _collect(relation, 0, found, conditions)
        return _JoinSet(tuple(found), tuple(conditions), relation)

    @property
    def starts(self) -> list[int]:
        """The first column of each relation."""
        starts, start = [], 0
        for each in self.relations:
            starts.append(start)
            start += len(each.schema)
        return starts

    def with_derived_conditions(self) -> _JoinSet:
        """The relations, each filtered by its part of alternatives: ``(a = 1 AND b = 2) OR (a = 3 AND b = 4)``."""
        starts, relations = self.starts, list(self.relations)
        for number, (relation, start) in enumerate(zip(self.relations, starts, strict=True)):
            own = range(start, start + len(relation.schema))
            found = [_derived(each, own) for each in self.conditions]
            filters = [moved(each, {index: index - start for index in own}) for each in found if each is not None]
            relations[number] = with_filters_below(Filter(relation, all_of(filters))) if filters else relation
        return replace(self, relations=tuple(relations))

    def restored(self, made: _Joined) -> Relation:
        """A join of all relations in another order, with the columns in the order before."""
        places = {column: place for place, column in enumerate(made.columns)}
        schema = self.top.schema
        columns = tuple(InputRef.of(made.relation.schema, places[index]) for index in range(len(schema)))
        return Project(made.relation, columns, schema.names)


def _derived(condition: Scalar, own: range) -> Scalar | None:
    """The condition on some of the columns that follows from a disjunction; None where nothing does."""
    if not isinstance(condition, Call) or condition.function != "OR":
        return None
    filters = [
        [part for part in conjuncts(each) if (reads := set(input_refs(part))) and reads <= set(own)]
        for each in condition.operands
    ]
    if not all(filters) or set(input_refs(condition)) <= set(own):
        return None
    return either(list(dict.fromkeys(all_of(parts) for parts in filters)))


def _collect(relation: Relation, start: int, found: list[Relation], conditions: list[Scalar]) -> None:
    if not _is_free(relation):
        found.append(relation)
        return
    assert isinstance(relation, LogicalJoin)
    parts = conjuncts(relation.condition)
    conditions += [moved(each, {index: index + start for index in input_refs(each)}) for each in parts]
    _collect(relation.left, start, found, conditions)
    _collect(relation.right, start + len(relation.left.schema), found, conditions)


@dataclass(frozen=True)
class _Joined:
    """A join of some of the relations.

    Attributes:
        relation: the join.
        columns: the columns of all relations that its columns are.
        rows: its estimated number of rows.
        cost: what it costs with all joins below it.
    """

    relation: Relation
    columns: tuple[int, ...]
    rows: float
    cost: float


class _OrderSearch:
    """Looks for the tree of joins that costs least.

    Args:
        joined: what is joined.
        estimates: the estimates.
    """

    def __init__(self, joined: _JoinSet, estimates: Estimates) -> None:
        self._estimates = estimates
        self._conditions = joined.conditions
        self._owners: dict[int, int] = {}
        self._leaves: list[_Joined] = []
        for number, (each, start) in enumerate(zip(joined.relations, joined.starts, strict=True)):
            columns = tuple(range(start, start + len(each.schema)))
            self._owners |= dict.fromkeys(columns, number)
            self._leaves.append(_Joined(each, columns, estimates.rows(each), 0.0))
        self._sets = [frozenset(self._owners[index] for index in input_refs(each)) for each in joined.conditions]

    def best(self) -> _Joined:
        """The join of all relations."""
        trees = {frozenset({number}): leaf for number, leaf in enumerate(self._leaves)}
        if len(self._leaves) <= _MOST_COMPARED:
            trees |= self._compared(trees)
        whole = frozenset(range(len(self._leaves)))
        return trees[whole] if whole in trees else self._greedy(trees)

    def _compared(self, leaves: dict[frozenset[int], _Joined]) -> dict[frozenset[int], _Joined]:
        """The best tree of each set of relations that conditions connect."""
        best = dict(leaves)
        for size in range(2, len(leaves) + 1):
            for chosen in combinations(range(len(leaves)), size):
                relations = frozenset(chosen)
                found = [self._join(best[one], best[other]) for one, other in self._splits(relations, best)]
                if found:
                    best[relations] = min(found, key=lambda each: each.cost)
        return best

    def _splits(
        self, relations: frozenset[int], best: dict[frozenset[int], _Joined]
    ) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
        """The pairs of connected sets that make up a set, each once, and are connected by a condition."""
        first, *others = sorted(relations)
        for size in range(len(others)):
            for chosen in combinations(others, size):
                one = frozenset((first, *chosen))
                other = relations - one
                if one in best and other in best and self._is_connected(one, other):
                    yield one, other

    def _is_connected(self, one: frozenset[int], other: frozenset[int]) -> bool:
        return any(each <= one | other and each & one and each & other for each in self._sets)

    def _greedy(self, trees: dict[frozenset[int], _Joined]) -> _Joined:
        """The relations joined two at a time, always those whose join has the fewest rows; connected ones first."""
        left = _largest_apart(trees)
        while len(left) > 1:
            pairs = list(combinations(left, 2))
            pairs = [(one, other) for one, other in pairs if self._is_connected(one, other)] or pairs
            made = {(one, other): self._join(left[one], left[other]) for one, other in pairs}
            one, other = min(made, key=lambda pair: made[pair].rows)
            found = made[one, other]
            del left[one], left[other]
            left[one | other] = found
        return next(iter(left.values()))

    def _join(self, one: _Joined, other: _Joined) -> _Joined:
        """The join of two joins, the larger one on the left."""
        left, right = (one, other) if one.rows >= other.rows else (other, one)
        columns = (*left.columns, *right.columns)
        places = {column: place for place, column in enumerate(columns)}
        conditions = [
            moved(each, {index: places[index] for index in input_refs(each)}) for each in self._between(left, right)
        ]
        made = LogicalJoin(left.relation, right.relation, JoinType.INNER, condition_of(conditions))
        share = self._estimates.share_of_pairs(left.relation, right.relation, conditions)
        rows = max(left.rows * right.rows * share, 1.0)
        return _Joined(made, columns, rows, one.cost + other.cost + left.rows + 2 * right.rows + rows)

    def _between(self, left: _Joined, right: _Joined) -> list[Scalar]:
        """The conditions on columns of two joins, and not of one alone."""
        lefts, rights = ({self._owners[column] for column in each.columns} for each in (left, right))
        both = lefts | rights
        return [
            condition
            for condition, reads in zip(self._conditions, self._sets, strict=True)
            if reads <= both and (not (reads <= lefts or reads <= rights) or _is_of_one(reads, (lefts, rights)))
        ]


def _is_of_one(reads: frozenset[int], sides: tuple[set[int], set[int]]) -> bool:
    """Return whether a condition is of one relation that is a side of the join; or of none: any join can have it."""
    return not reads or (len(reads) == 1 and reads in sides)


def _largest_apart(trees: dict[frozenset[int], _Joined]) -> dict[frozenset[int], _Joined]:
    """The largest trees that have no relation in common."""
    found: dict[frozenset[int], _Joined] = {}
    for relations in sorted(trees, key=lambda each: (-len(each), sorted(each))):
        if not any(relations & each for each in found):
            found[relations] = trees[relations]
    return found
