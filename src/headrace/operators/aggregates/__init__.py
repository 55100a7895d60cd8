"""Built-in aggregates: the declarations of users, and the aggregators that compute them over groups of rows."""
