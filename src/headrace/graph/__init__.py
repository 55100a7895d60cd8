"""The logical job graph: the program of the user, as immutable nodes and edges."""
