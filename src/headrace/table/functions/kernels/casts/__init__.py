"""``CAST`` and ``TRY_CAST``: one table of how values of each family become those of another."""

from headrace.table.functions.kernels.casts.table import cast, has_cast

__all__ = ["cast", "has_cast"]
