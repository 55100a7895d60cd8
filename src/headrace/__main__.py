"""``python -m headrace``: the same as the ``headrace`` command."""

from __future__ import annotations

from headrace.cli.main import app

if __name__ == "__main__":
    app(prog_name="headrace")
