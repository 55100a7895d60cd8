"""A dispatcher: accepts programs, runs each as a process of its own, and shows all of their jobs."""
