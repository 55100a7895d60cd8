"""``CAST`` and ``TRY_CAST``: one table of how values of each family become those of another."""

from headrace.table.functions.kernels.casts.table import cast

__all__ = ["cast"]
