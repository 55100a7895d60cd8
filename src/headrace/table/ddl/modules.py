"""``LOAD MODULE``, ``UNLOAD MODULE`` and ``USE MODULES``.

There is one module, ``core``, with the built-in functions. Unloading it hides it from ``SHOW MODULES`` and keeps its
functions, as in Flink.
"""

from typing import Final

from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.parse.tree import statements as st
from headrace.table.parse.tree.node import Name

CORE: Final = "core"


def load_module(context: BindContext, node: st.LoadModule) -> None:
    """``LOAD MODULE``: it is used after those that are in use.

    Raises:
        SqlValidationError: when there is no such module, or it is loaded already.
    """
    catalogs, name = context.catalogs, node.module.text
    if name in catalogs.modules:
        raise context.error(node.module, f"module '{name}' is loaded already")
    if name != CORE:
        advice = misspelt(name, (CORE,)) or "Functions of Python are created by CREATE FUNCTION ... LANGUAGE PYTHON."
        raise context.error(node.module, f"there is no module '{name}'", advice)
    for option in node.options:
        raise context.error(option, f"module '{name}' has no option '{option.key}'")
    catalogs.modules[name] = True


def unload_module(context: BindContext, node: st.UnloadModule) -> None:
    """``UNLOAD MODULE``.

    Raises:
        SqlValidationError: when it is not loaded.
    """
    _check_loaded(context, node.module)
    del context.catalogs.modules[node.module.text]


def use_modules(context: BindContext, node: st.UseModules) -> None:
    """``USE MODULES``: the named ones in this order, and no others.

    Raises:
        SqlValidationError: when one is not loaded, or is named twice.
    """
    names = [name.text for name in node.modules]
    for at, name in enumerate(node.modules):
        if name.text in names[:at]:
            raise context.error(name, f"module '{name}' is named twice")
        _check_loaded(context, name)
    modules = context.catalogs.modules
    modules.update(dict.fromkeys(modules, False) | dict.fromkeys(names, True))


def _check_loaded(context: BindContext, name: Name) -> None:
    if name.text not in context.catalogs.modules:
        raise context.error(name, f"module '{name}' is not loaded", misspelt(name.text, context.catalogs.modules))
