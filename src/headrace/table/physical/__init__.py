"""Physical plans: which operators compute a statement, and which row kinds go between them.

A logical tree becomes a tree of physical nodes (``conversion``), in which it is then found out which row kinds each
node gives (``changelog``) and which columns identify its rows (``keys``). A node makes its part of the stream graph
(``translation``), and has the text that Flink gives it in ``EXPLAIN`` (``explain``).
"""
