"""Has a process know how the runs of all operators are merged, those of programs that it has never seen included.

Who merges runs without the job that has written them imports this: compaction in a process of its own, and whoever
reads checkpoints from outside. The modules below call ``register_merger``, or ``register_ordered_merger``, when they
are imported.
"""

from __future__ import annotations
