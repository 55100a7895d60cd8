"""Everything of headrace that knows Spark."""
