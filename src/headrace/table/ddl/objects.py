"""``CREATE``, ``ALTER``, ``DROP`` and ``USE`` of catalogs, databases, functions and models."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.catalog.catalog import Catalog, CatalogStore, MemoryCatalog
from headrace.table.catalog.manager import CatalogManager
from headrace.table.catalog.objects import (
    CatalogDescription,
    CatalogFunction,
    CatalogModel,
    Column,
    Database,
    ObjectPath,
)
from headrace.table.ddl.columns import TableBinder, options_of
from headrace.table.ddl.file_catalog import FileCatalog
from headrace.table.ddl.tables import path_of
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree import statements as st
from headrace.table.parse.tree.node import Name, Path, SqlNode


def _in_memory(options: Mapping[str, str]) -> Catalog:
    return MemoryCatalog(options.get("default-database", "default"))


def _in_files(options: Mapping[str, str]) -> Catalog:
    if "path" not in options:
        raise ConfigurationError("a catalog of type 'file' needs a folder: WITH ('type' = 'file', 'path' = '...')")
    return FileCatalog(options["path"], options.get("default-database", "default"))


_TYPES: Final[dict[str, Callable[[Mapping[str, str]], Catalog]]] = {
    "generic_in_memory": _in_memory,
    "file": _in_files,
}


_OPTIONS: Final = {
    "generic_in_memory": ("type", "default-database"),
    "file": ("type", "path", "default-database"),
}
"""The options of each type."""


def open_catalogs(catalogs: CatalogManager, store: CatalogStore) -> None:
    """Open the catalogs of a store for a session, and keep the session's new catalogs there.

    Raises:
        HeadraceError: when a catalog cannot be opened.
    """
    for name in store.names():
        if (description := store.description(name)) is not None:
            catalogs.catalogs[name] = _opened(name, description)
            catalogs.descriptions[name] = description
    catalogs.store = store


def renew_catalogs(
    catalogs: CatalogManager, store: CatalogStore, skipped: Callable[[str, HeadraceError], object]
) -> None:
    """Open what others have put into a store meanwhile, and forget what they have dropped there.

    Args:
        catalogs: those of the session.
        store: the store.
        skipped: is called with a catalog that cannot be opened, which stays as it was, and with the reason.
    """
    known = catalogs.descriptions
    opened = {name: each for name, each in catalogs.catalogs.items() if name not in known}
    there: dict[str, CatalogDescription] = {}
    for name in store.names():
        try:
            description = store.description(name)
            if description is None:
                continue
            opened[name] = catalogs.catalogs[name] if known.get(name) == description else _opened(name, description)
            there[name] = description
        except HeadraceError as error:
            skipped(name, error)
            if name in known:
                opened[name], there[name] = catalogs.catalogs[name], known[name]
    # Threads may be reading both: they are replaced, and not changed
    catalogs.catalogs, catalogs.descriptions = opened, there


def _opened(name: str, description: CatalogDescription) -> Catalog:
    options = dict(description.options)
    kind = options.get("type", "")
    if kind not in _TYPES:
        raise ConfigurationError(
            f"catalog {name!r} of the catalog store is of type {kind!r}, and the types are {', '.join(_TYPES)}"
        )
    return _TYPES[kind](options)


# --- catalogs --------------------------------------------------------------------------------------------------------


def create_catalog(context: BindContext, node: sql.CreateCatalog) -> None:
    """``CREATE CATALOG``."""
    catalogs, name = context.catalogs, node.catalog.text
    if name in catalogs.catalogs:
        if node.if_not_exists:
            return
        raise context.error(node.catalog, f"catalog '{name}' already exists", "Write IF NOT EXISTS.")
    options = options_of(node.options)
    kind = dict(options).get("type")
    if kind is None:
        raise context.error(node, "the catalog needs a type", f"Write WITH ('type' = '{next(iter(_TYPES))}').")
    if kind not in _TYPES:
        option = next(option for option in node.options if option.key == "type")
        advice = misspelt(kind, _TYPES) or f"The types are {', '.join(_TYPES)}."
        raise context.error(option, f"there is no catalog of type '{kind}'", advice)
    _check_options(context, kind, node.options)
    try:
        catalogs.catalogs[name] = _TYPES[kind](dict(options))
    except ConfigurationError as error:
        raise context.error(node, str(error)) from None
    catalogs.describe(name, CatalogDescription(options, node.comment))


def _check_options(context: BindContext, kind: str, options: tuple[sql.Option, ...]) -> None:
    """Refuse options that catalogs of a type do not have."""
    for option in options:
        if option.key not in _OPTIONS[kind]:
            advice = misspelt(option.key, _OPTIONS[kind]) or f"The options are {', '.join(_OPTIONS[kind])}."
            raise context.error(option, f"a catalog of type '{kind}' has no option '{option.key}'", advice)


def drop_catalog(context: BindContext, node: sql.Drop) -> None:
    """``DROP CATALOG``."""
    catalogs, name = context.catalogs, str(node.path)
    if name not in catalogs.catalogs:
        if node.if_exists:
            return
        raise context.missing_catalog(node.path, name)
    if name == catalogs.catalog:
        raise context.error(node.path, f"catalog '{name}' is in use", "USE CATALOG another one first.")
    del catalogs.catalogs[name]
    catalogs.describe(name, None)


def use_catalog(context: BindContext, node: st.UseCatalog) -> None:
    """``USE CATALOG``: its default database becomes the current one."""
    catalogs, name = context.catalogs, node.catalog.text
    if name not in catalogs.catalogs:
        advice = misspelt(name, catalogs.catalogs)
        raise context.unplanned(node.catalog, f"catalog '{name}' does not exist", advice)
    catalogs.catalog = name
    catalogs.database = catalogs.catalogs[name].default_database


def alter_catalog(context: BindContext, node: sql.Alter) -> None:
    """``ALTER CATALOG ... SET | RESET | COMMENT``."""
    name = str(node.path)
    if name not in context.catalogs.catalogs:
        raise context.missing_catalog(node.path, name)
    found = context.catalogs.descriptions.get(name, CatalogDescription())
    options, comment = dict(found.options), found.comment
    if isinstance(node.action, sql.SetOptions):
        _check_options(context, options.get("type", "generic_in_memory"), node.action.options)
        options |= dict(options_of(node.action.options))
    elif isinstance(node.action, sql.ResetOptions):
        check_altered_catalog(context, node)
        if "type" in node.action.keys:
            raise context.error(node.action, "RESET cannot change the type of a catalog")
        options = {key: value for key, value in options.items() if key not in node.action.keys}
    elif isinstance(node.action, sql.SetComment):
        comment = node.action.comment
    context.catalogs.describe(name, CatalogDescription(tuple(options.items()), comment))


def check_altered_catalog(context: BindContext, node: sql.Alter) -> None:
    """Refuse ``RESET ()``.

    Raises:
        SqlValidationError: when it is that.
    """
    if isinstance(node.action, sql.ResetOptions) and not node.action.keys:
        raise context.error(node.action, "RESET needs a key")


# --- databases -------------------------------------------------------------------------------------------------------


def database_of(context: BindContext, node: Path) -> tuple[str, str]:
    """The catalog and the name of a database.

    Raises:
        SqlValidationError: when there is no such catalog.
    """
    *rest, name = node.texts
    catalog = rest[0] if rest else context.catalogs.catalog
    if len(rest) > 1 or catalog not in context.catalogs.catalogs:
        raise context.missing_catalog(node, ".".join(rest))
    return catalog, name


def existing_database(context: BindContext, node: Path) -> tuple[str, str]:
    """The catalog and the name of a database that exists."""
    catalog, name = database_of(context, node)
    if not context.catalogs.has_database(catalog, name):
        advice = misspelt(name, context.catalogs.catalogs[catalog].databases())
        raise context.error(node, f"database '{catalog}.{name}' does not exist", advice)
    return catalog, name


def check_database_name(context: BindContext, path: Path) -> None:
    """Refuse a name of more than a catalog and a database.

    Raises:
        SqlValidationError: when it is one.
    """
    if len(path.names) > 2:
        raise context.error(path, f"'{path}' has more than a catalog and a database")


def create_database(context: BindContext, node: sql.CreateDatabase) -> None:
    """``CREATE DATABASE``."""
    first, *rest = node.database.texts
    if len(rest) == 1 and first not in context.catalogs.catalogs:
        advice = misspelt(first, context.catalogs.catalogs)
        raise context.unplanned(node.database, f"catalog '{first}' does not exist", advice)
    catalog, name = database_of(context, node.database)
    if context.catalogs.has_database(catalog, name):
        if node.if_not_exists:
            return
        raise context.error(node.database, f"database '{catalog}.{name}' already exists", "Write IF NOT EXISTS.")
    context.catalogs.catalogs[catalog].put_database(name, Database(node.comment, options_of(node.options)))


def drop_database(context: BindContext, node: sql.Drop) -> None:
    """``DROP DATABASE``, which has to be empty without CASCADE."""
    catalog, name = database_of(context, node.path)
    if not context.catalogs.has_database(catalog, name):
        if node.if_exists:
            return
        existing_database(context, node.path)
    if (catalog, name) == (context.catalogs.catalog, context.catalogs.database):
        raise context.unplanned(node.path, f"database '{name}' is in use", "USE another one first.")
    found = context.catalogs.catalogs[catalog]
    if found.tables(name) and not node.cascade:
        raise context.unplanned(node.path, f"database '{name}' is not empty", "Write CASCADE to drop all in it.")
    kept = [each for each in found.tables(name) if getattr(found.table(name, each), "materialization", None)]
    if kept:
        reason = f"database '{name}' has materialized tables, whose jobs would go on: {', '.join(kept)}"
        raise context.unplanned(node.path, reason, "DROP MATERIALIZED TABLE each of them first.")
    found.drop_database(name)


def alter_database(context: BindContext, node: sql.Alter) -> None:
    """``ALTER DATABASE ... SET``."""
    catalog, name = existing_database(context, node.path)
    found = context.catalogs.catalogs[catalog]
    database = found.database(name) or Database()
    if not isinstance(node.action, sql.SetOptions):
        raise context.error(node.action, "ALTER DATABASE takes SET only")
    properties = dict(database.properties) | dict(options_of(node.action.options))
    found.put_database(name, Database(database.comment, tuple(properties.items())))


def use_database(context: BindContext, node: st.UseDatabase) -> None:
    """``USE``."""
    catalog, name = database_of(context, node.database)
    if not context.catalogs.has_database(catalog, name):
        advice = misspelt(name, context.catalogs.catalogs[catalog].databases())
        raise context.unplanned(node.database, f"database '{catalog}.{name}' does not exist", advice)
    context.catalogs.catalog, context.catalogs.database = catalog, name


# --- functions -------------------------------------------------------------------------------------------------------


def create_function(context: BindContext, node: sql.CreateFunction, inline: Any = None) -> None:
    """``CREATE FUNCTION``; its Python object is imported when the function is called.

    Args:
        context: the context.
        node: the statement.
        inline: the function itself, if a program has registered it.
    """
    language = language_of(context, node, node.language)
    function = CatalogFunction(node.class_name, language, inline)
    if inline is None and language != "PYTHON" and (node.is_system or node.is_temporary):
        reason = f"function '{node.function}' is written in {language}: {node.class_name}"
        advice = "Write it in Python, and CREATE FUNCTION ... LANGUAGE PYTHON."
        raise (context.unplanned if node.is_system else context.error)(node.function, reason, advice)
    if node.is_system:
        name = str(node.function).lower()
        _check_new(context, node, there=name in context.catalogs.system_functions)
        context.catalogs.system_functions.setdefault(name, function)
        return
    path = _function_path(context, node.function)
    if node.is_temporary:
        _check_new(context, node, there=path in context.catalogs.temporary_functions)
        context.catalogs.temporary_functions.setdefault(path, function)
        return
    catalog = context.catalogs.catalogs[path.catalog]
    there = catalog.function(path.database, path.name) is not None
    _check_new(context, node, there=there)
    if not there:
        catalog.put_function(path.database, path.name, function)


def language_of(context: BindContext, node: SqlNode, language: sql.FunctionLanguage | None) -> str:
    """The language of a function: Java where none is written."""
    if language is sql.FunctionLanguage.SQL:
        raise context.unplanned(node, "functions are not written in SQL", "Write CREATE VIEW, or LANGUAGE PYTHON.")
    return "JAVA" if language is None else language.value


def _function_path(context: BindContext, node: Path) -> ObjectPath:
    path = path_of(context, node)
    return path._replace(name=path.name.lower())


def _check_new(context: BindContext, node: sql.CreateFunction, *, there: bool) -> None:
    if there and not node.if_not_exists:
        raise context.error(node.function, f"function '{node.function}' already exists", "Write IF NOT EXISTS.")


def drop_function(context: BindContext, node: sql.Drop) -> None:
    """``DROP FUNCTION``."""
    catalogs = context.catalogs
    if node.is_system:
        if catalogs.system_functions.pop(str(node.path).lower(), None) is None and not node.if_exists:
            raise context.error(node.path, f"temporary system function '{node.path}' does not exist")
        return
    path = _function_path(context, node.path)
    if node.is_temporary:
        if catalogs.temporary_functions.pop(path, None) is None and not node.if_exists:
            raise context.error(node.path, f"temporary function '{path}' does not exist")
        return
    catalog = catalogs.catalogs[path.catalog]
    if catalog.function(path.database, path.name) is not None:
        catalog.drop_function(path.database, path.name)
    elif not node.if_exists:
        advice = misspelt(path.name, catalog.functions(path.database))
        raise context.error(node.path, f"function '{path}' does not exist", advice)


def check_altered_function(context: BindContext, node: sql.Alter) -> None:
    """Refuse ``ALTER TEMPORARY SYSTEM FUNCTION``, and languages that functions are not written in.

    Raises:
        SqlValidationError: when it is that.
        SqlPlanError: when the language is SQL.
    """
    if node.is_system:
        reason = "temporary system functions are not altered"
        raise context.error(node.path, reason, "DROP it, and CREATE it anew.")
    assert isinstance(node.action, sql.SetFunction)
    language_of(context, node, node.action.language)


def alter_function(context: BindContext, node: sql.Alter) -> None:
    """``ALTER FUNCTION ... AS``."""
    check_altered_function(context, node)
    assert isinstance(node.action, sql.SetFunction)
    language = language_of(context, node, node.action.language)
    function = CatalogFunction(node.action.class_name, language)
    path = _function_path(context, node.path)
    catalog = context.catalogs.catalogs[path.catalog]
    if node.is_temporary and path in context.catalogs.temporary_functions:
        context.catalogs.temporary_functions[path] = function
    elif catalog.function(path.database, path.name) is not None:
        catalog.put_function(path.database, path.name, function)
    elif not node.if_exists:
        raise context.error(node.path, f"function '{path}' does not exist")


# --- models ----------------------------------------------------------------------------------------------------------


def create_model(context: BindContext, node: sql.CreateModel) -> None:
    """``CREATE MODEL``."""
    check_model(context, node)
    path = path_of(context, node.model)
    models = _models(context, is_temporary=node.is_temporary)
    if path in models:
        if node.if_not_exists:
            return
        raise context.error(node.model, f"model '{path}' already exists", "Write IF NOT EXISTS.")
    inputs, outputs = _model_columns(context, node.inputs), _model_columns(context, node.outputs)
    models[path] = CatalogModel(inputs, outputs, options_of(node.options), node.comment)


def check_model(context: BindContext, node: sql.CreateModel) -> None:
    """Refuse a model of a query, or with columns that are not plain.

    Raises:
        SqlPlanError: when it is made from a query.
        SqlValidationError: when a column is computed, or metadata.
    """
    if node.query is not None:
        reason = "a model is not made from a query here"
        raise context.unplanned(node, reason, "Leave AS out, and name its INPUT and OUTPUT.")
    for element in (*node.inputs, *node.outputs):
        if not isinstance(element, sql.PhysicalColumn):
            raise context.error(element, "a model has columns with types only")


def _models(context: BindContext, *, is_temporary: bool) -> dict[ObjectPath, CatalogModel]:
    return context.catalogs.temporary_models if is_temporary else context.catalogs.models


def _model_columns(context: BindContext, elements: tuple[sql.TableElement, ...]) -> tuple[Column, ...]:
    binder = TableBinder(context)
    binder.columns(elements)
    return binder.table.columns


def drop_model(context: BindContext, node: sql.Drop) -> None:
    """``DROP MODEL``."""
    path = context.catalogs.qualify(node.path.texts)
    models = _models(context, is_temporary=node.is_temporary)
    if models.pop(path, None) is None and not node.if_exists:
        word = "temporary model" if node.is_temporary else "model"
        raise context.error(node.path, f"{word} '{path}' does not exist")


def altered_model(context: BindContext, node: sql.Alter) -> CatalogModel | None:
    """The model of ``ALTER MODEL``; None where there is none, and ``IF EXISTS`` is written.

    Raises:
        SqlValidationError: when there is none, or nothing is set or reset.
    """
    path = context.catalogs.qualify(node.path.texts)
    model = context.catalogs.models.get(path)
    if model is None and not node.if_exists:
        raise context.error(node.path, f"model '{path}' does not exist")
    if isinstance(node.action, sql.SetOptions) and not node.action.options:
        raise context.error(node.action, "SET needs an option")
    if isinstance(node.action, sql.ResetOptions) and not node.action.keys:
        raise context.error(node.action, "RESET needs a key")
    return model


def alter_model(context: BindContext, node: sql.Alter) -> None:
    """``ALTER MODEL ... SET | RESET | RENAME TO``."""
    path = context.catalogs.qualify(node.path.texts)
    model = altered_model(context, node)
    if model is None:
        return
    if isinstance(node.action, sql.RenameTo):
        target = path._replace(name=_last(node.action.to).text)
        if target in context.catalogs.models:
            raise context.error(node.action.to, f"model '{target}' already exists")
        del context.catalogs.models[path]
        context.catalogs.models[target] = model
        return
    options = dict(model.options)
    if isinstance(node.action, sql.SetOptions):
        options |= dict(options_of(node.action.options))
    elif isinstance(node.action, sql.ResetOptions):
        options = {key: value for key, value in options.items() if key not in node.action.keys}
    changed = CatalogModel(model.inputs, model.outputs, tuple(options.items()), model.comment)
    context.catalogs.models[path] = changed


def _last(path: Path) -> Name:
    return path.names[-1]
