"""Keyed state, timers, their versions and the files they live in."""
