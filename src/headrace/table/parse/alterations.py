"""``ALTER``."""

from collections.abc import Callable
from typing import Final

from headrace.table.parse.definitions import CONSTRAINT_WORDS, DefinitionParser
from headrace.table.parse.tree.definitions import (
    AddPartitions,
    Alter,
    AlterAction,
    ChangeSchema,
    ColumnPlace,
    DropColumns,
    DropConstraint,
    DropPart,
    DropPartitions,
    DroppedPart,
    ObjectKind,
    Option,
    Partition,
    Refresh,
    RenameColumn,
    RenameTo,
    ResetOptions,
    Resume,
    SchemaChange,
    SetComment,
    SetFreshness,
    SetFunction,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    Statement,
    Suspend,
)


class AlterationParser(DefinitionParser):
    """Parses ``ALTER``, by tables of the keywords after the object's name."""

    __slots__ = ()

    def alter(self) -> Statement:
        """``ALTER``, of any object."""
        start = self.start
        self.expect("ALTER")
        temporary = self.accept("TEMPORARY")
        system = self._system(temporary)
        if temporary and not self.at("FUNCTION"):
            self.fail("FUNCTION")
        kind = self.object_kind()
        exists = kind in _MAY_BE_MISSING and self.if_exists()
        path = self.path()
        actions = _ACTIONS[kind]
        begin = self.start
        action = self.choose(actions)(self, begin)
        return Alter(kind, path, action, exists, temporary, system, start=start, end=self.end)

    def _rename(self, start: int) -> AlterAction:
        self.expect("TO")
        return RenameTo(self.path(), start=start, end=self.end)

    def _rename_table_or_column(self, start: int) -> AlterAction:
        if self.at("TO"):
            return self._rename(start)
        column = self.path()
        self.expect("TO")
        return RenameColumn(column, self.path(), start=start, end=self.end)

    def _set(self, start: int) -> AlterAction:
        return SetOptions(self.options(), start=start, end=self.end)

    def _set_of_materialized(self, start: int) -> AlterAction:
        if self.accept("FRESHNESS"):
            return SetFreshness(self._freshness(), start=start, end=self.end)
        if self.accept("REFRESH_MODE"):
            return SetRefreshMode(self._refresh_mode(), start=start, end=self.end)
        return self._set(start)

    def _reset(self, start: int) -> AlterAction:
        return ResetOptions(self._keys(), start=start, end=self.end)

    def _set_comment(self, start: int) -> AlterAction:
        return SetComment(self.text(), start=start, end=self.end)

    def _set_query(self, start: int) -> AlterAction:
        return SetQuery(self.query(), start=start, end=self.end)

    def _set_function(self, start: int) -> AlterAction:
        class_name = self.text()
        return SetFunction(class_name, self._language(), start=start, end=self.end)

    def _add(self, start: int) -> AlterAction:
        if self.at("PARTITION") or self.at_all("IF", "NOT", "EXISTS", "PARTITION"):
            return self._add_partitions(start)
        return self._change(start, True)

    def _modify(self, start: int) -> AlterAction:
        return self._change(start, False)

    def _change(self, start: int, is_add: bool) -> AlterAction:
        changes = self.in_parentheses(self._schema_change) if self.at("(") else (self._schema_change(),)
        return ChangeSchema(is_add, changes, start=start, end=self.end)

    def _schema_change(self) -> SchemaChange:
        start = self.start
        if self.accept("DISTRIBUTION"):
            return SchemaChange(self._distribution(), start=start, end=self.end)
        if self.at_any((*CONSTRAINT_WORDS, "WATERMARK")):
            return SchemaChange(self._element(), start=start, end=self.end)
        column = self._column(self.path())
        place = None
        if self.at("FIRST"):
            token = self.advance()
            place = ColumnPlace(None, start=token.start, end=token.end)
        elif self.at("AFTER"):
            begin = self.advance().start
            place = ColumnPlace(self.path(), start=begin, end=self.end)
        return SchemaChange(column, place, start=start, end=self.end)

    def _drop_of_table(self, start: int) -> AlterAction:
        if self.at("PARTITION") or self.at_all("IF", "EXISTS", "PARTITION"):
            return self._drop_partitions(start)
        if self.accept("PRIMARY"):
            self.expect("KEY")
            return DropPart(DroppedPart.PRIMARY_KEY, start=start, end=self.end)
        if self.accept("CONSTRAINT"):
            return DropConstraint(self.name(), start=start, end=self.end)
        if self.accept("DISTRIBUTION"):
            return DropPart(DroppedPart.DISTRIBUTION, start=start, end=self.end)
        if self.accept("WATERMARK"):
            return DropPart(DroppedPart.WATERMARK, start=start, end=self.end)
        columns = self.in_parentheses(self.path) if self.at("(") else (self.path(),)
        return DropColumns(columns, start=start, end=self.end)

    def _add_partitions(self, start: int) -> AlterAction:
        not_exists = self.if_not_exists()
        partitions: list[Partition] = []
        options: list[tuple[Option, ...]] = []
        while not partitions or self.at("PARTITION"):
            self.expect("PARTITION")
            partitions.append(self.partition())
            options.append(self.with_options())
        return AddPartitions(tuple(partitions), tuple(options), not_exists, start=start, end=self.end)

    def _drop_partitions(self, start: int) -> AlterAction:
        exists = self.if_exists()
        partitions = self.some(self._dropped_partition)
        return DropPartitions(partitions, exists, start=start, end=self.end)

    def _dropped_partition(self) -> Partition:
        self.expect("PARTITION")
        return self.partition()

    def _suspend(self, start: int) -> AlterAction:
        return Suspend(start=start, end=self.end)

    def _resume(self, start: int) -> AlterAction:
        return Resume(self.with_options(), start=start, end=self.end)

    def _refresh(self, start: int) -> AlterAction:
        return Refresh(self._optional_partition(), start=start, end=self.end)


_Action = Callable[[AlterationParser, int], AlterAction]

_MAY_BE_MISSING: Final = (ObjectKind.TABLE, ObjectKind.FUNCTION, ObjectKind.MODEL, ObjectKind.CONNECTION)
"""The objects that ALTER supports with IF EXISTS."""

_OPTIONS_AND_NAME: Final[dict[str, _Action]] = {
    "RENAME": AlterationParser._rename,
    "SET": AlterationParser._set,
    "RESET": AlterationParser._reset,
}
_SCHEMA: Final[dict[str, _Action]] = {
    "ADD": AlterationParser._add,
    "MODIFY": AlterationParser._modify,
    "DROP": AlterationParser._drop_of_table,
}

_ACTIONS: Final[dict[ObjectKind, dict[str, _Action]]] = {
    ObjectKind.TABLE: {**_OPTIONS_AND_NAME, **_SCHEMA, "RENAME": AlterationParser._rename_table_or_column},
    ObjectKind.MATERIALIZED_TABLE: {
        **_SCHEMA,
        "SET": AlterationParser._set_of_materialized,
        "RESET": AlterationParser._reset,
        "SUSPEND": AlterationParser._suspend,
        "RESUME": AlterationParser._resume,
        "REFRESH": AlterationParser._refresh,
        "AS": AlterationParser._set_query,
    },
    ObjectKind.VIEW: {"RENAME": AlterationParser._rename, "AS": AlterationParser._set_query},
    ObjectKind.CATALOG: {
        "SET": AlterationParser._set,
        "RESET": AlterationParser._reset,
        "COMMENT": AlterationParser._set_comment,
    },
    ObjectKind.DATABASE: {"SET": AlterationParser._set},
    ObjectKind.FUNCTION: {"AS": AlterationParser._set_function},
    ObjectKind.MODEL: _OPTIONS_AND_NAME,
    ObjectKind.CONNECTION: _OPTIONS_AND_NAME,
}
"""Parsers of the rest of an ALTER statement, by the kind of object and the keyword behind its name."""
