"""Functions with state that all subtasks have alike, and that state."""
