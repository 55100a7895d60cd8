"""The epoch loop: plans epochs, has them run, writes manifests, lets sinks commit. No Spark."""
