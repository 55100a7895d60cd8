"""headrace: Apache Flink's programming model and guarantees on Apache Spark."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__"]


class _MissingModules:
    """A finder of modules that is called last, when no other one knows a module."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find nothing.

        Raises:
            MissingModuleError: for a module that only PyFlink has, or that is elsewhere.
        """
        if not name.startswith(f"{__name__}."):
            return
        from headrace.common.errors import leave_the_program
        from headrace.common.public_module import check_module

        handled = sys.exception()
        try:
            check_module(name)
        except ImportError as error:
            leave_the_program(error, handled)
            raise


if _MissingModules not in sys.meta_path:
    sys.meta_path.append(_MissingModules)


def load_ipython_extension(shell: Any) -> None:
    """Add ``%sql`` and ``%%sql`` to a notebook: IPython calls this for ``%load_ext headrace``."""
    # By name, as IPython finds this module: an import would have the lowest package know the highest
    importlib.import_module("headrace.cli.sql.notebook").SqlMagic(shell).register()


def __dir__() -> list[str]:
    return [
        *__all__,
        *(name for name in ("common", "datastream", "expressions", "table", "testing") if name in globals()),
    ]


if not TYPE_CHECKING:  # a name that is not there is an error to type checkers

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from headrace.common.errors import leave_the_program
        from headrace.common.public_module import answer

        handled = sys.exception()
        try:
            raise answer(sys.modules[__name__], name, sys._getframe(1))
        except (AttributeError, ImportError) as error:
            leave_the_program(error, handled)
            raise
