"""What statements may name: catalogs, databases, and the tables, views and functions in them."""
