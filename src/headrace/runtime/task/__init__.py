"""Tasks, the same on every runtime: operators wired, driven, and reported on."""
