"""What is measured: each module is a program that runs in a process of its own, with ``run(assignment) -> Outcome``."""
