"""The functions of SQL: one table with the name, the types, the determinism and the kernel of each."""

from headrace.common.public_module import public_module

__all__: list[str] = []

public_module(__name__)
