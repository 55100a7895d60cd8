"""What becomes of failures: restarts, and the history of what a job has failed with."""
