"""Notebooks made of a few cells, executed by a kernel of their own as Jupyter does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from headrace.runtime.spark.settings import FRUGAL_JAVA

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parents[2]
CELL_SECONDS = 600


class Executed:
    """A notebook after its execution.

    Args:
        notebook: what is executed.

    Attributes:
        updates: what was shown in place of something else, in order: the HTML.
    """

    def __init__(self, notebook: Any) -> None:
        self._notebook = notebook
        self.updates: list[str] = []
        client = nbclient.NotebookClient(self._notebook, timeout=CELL_SECONDS, allow_errors=True)
        process, updates = client.process_message, self.updates

        def note(message: dict[str, Any], *rest: Any) -> Any:
            if message["msg_type"] == "update_display_data":
                updates.append(message["content"]["data"]["text/html"])
            return process(message, *rest)

        client.process_message = note
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        spark = {"PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": FRUGAL_JAVA}
        client.execute(env={**os.environ, **spark, "PYTHONPATH": os.pathsep.join(paths)})

    @staticmethod
    def of(*cells: str) -> Executed:
        """A notebook of some cells of code."""
        code = [nbformat.v4.new_code_cell(dedent(cell).strip()) for cell in cells]
        kernel = {"name": "python3", "display_name": "", "language": "python"}
        return Executed(nbformat.v4.new_notebook(cells=code, metadata={"kernelspec": kernel}))

    @staticmethod
    def read(file: Path) -> Executed:
        """A notebook of a file; its cells of text count as well."""
        return Executed(nbformat.read(file, as_version=4))

    def stream(self, cell: int, name: str = "stdout") -> str:
        """What a cell printed."""
        return "".join(out.text for out in self._outputs(cell, "stream") if out.name == name)

    def shown(self, cell: int) -> list[str]:
        """The HTML that a cell shows in the end, beside its value."""
        return [out.data["text/html"] for out in self._outputs(cell, "display_data")]

    def value(self, cell: int, form: str = "text/html") -> str:
        """A cell's value."""
        (out,) = self._outputs(cell, "execute_result")
        return str(out.data[form])

    def traceback(self, cell: int) -> str:
        """The error of a cell as it is shown; empty when there is none."""
        return "\n".join("\n".join(out.traceback) for out in self._outputs(cell, "error"))

    def _outputs(self, cell: int, kind: str) -> list[Any]:
        return [out for out in self._notebook.cells[cell].get("outputs", []) if out.output_type == kind]
