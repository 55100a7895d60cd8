"""The streams of a program: handles on the edges of its graph."""
