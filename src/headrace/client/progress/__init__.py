"""What a terminal shows of a job while it runs."""
