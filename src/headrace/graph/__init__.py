"""The logical job graph: what the user asked for, as immutable nodes and edges."""
