"""The benchmarks: which programs run against each other, on what data, and what is asked of them."""
