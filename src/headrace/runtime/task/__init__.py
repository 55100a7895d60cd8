"""What runs inside a task, the same on every runtime: operators wired, driven, and reported on."""
