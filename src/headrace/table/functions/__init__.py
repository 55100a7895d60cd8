"""The functions of SQL: one table with the name, the types, the determinism and the kernel of each."""
