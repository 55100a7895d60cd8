"""Everything of headrace that depends on Spark."""
