"""Physical plans: the operators that compute a statement, and the row kinds on the edges between them.

A logical tree is converted to a tree of physical nodes (``conversion``). Inference then determines the row kinds that
each node emits (``changelog``) and the columns that identify its rows (``keys``). A node adds its operators to the
stream graph (``translation``). Its terms identify what it computes, and are its text in ``EXPLAIN``.
"""
