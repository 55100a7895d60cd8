"""Pattern matching in tasks: automata of patterns, and what they know of each key.

``automaton`` holds the compiled pattern, ``conditions`` and ``skip_strategies`` are parts of it. ``nfa`` runs it on the
events of a key and describes how it is called; ``matches`` holds the state that it keeps.
"""
