"""From the logical graph to stages: chaining, shuffles, parallelism, keys."""
