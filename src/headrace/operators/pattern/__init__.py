"""Pattern matching in tasks; ``docs/architecture/patterns.md`` follows an event through it.

- The automaton: ``automaton`` is the compiled pattern, with ``conditions``. ``nfa`` runs it on the events of a key, by
  the transitions that ``decisions`` has found; ``preferred_matching`` does that for ``MATCH_RECOGNIZE``.
- The shared buffer: ``shared_buffer`` has the partial matches of a key, ``stored_matches`` those of all keys in state,
  and ``found_matches`` what was read of some.
- Conditions for many events at once: ``event_conditions`` look at an event alone, ``iterative_conditions`` at those
  taken before as well. Their values, and those of measures, are ``match_values``; ``condition_evaluator`` evaluates
  them for one partial match after the other.
- The operator: ``pattern_operator`` begins with ``keyed_events``, has ``key_matching`` match them, and emits
  ``match_results``. It looks for ``patterns_at_work``, each of them a ``pattern_matcher``; ``rules`` change them.
  ``pattern_filter`` stands before the shuffle.
"""
