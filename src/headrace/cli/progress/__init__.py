"""What the command line shows of a job while it runs."""
