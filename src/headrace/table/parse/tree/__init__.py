"""The tree of a statement: immutable nodes with their places, which the parser makes and the binder reads."""
