"""Topics of the embedded log as a source and as a sink."""
