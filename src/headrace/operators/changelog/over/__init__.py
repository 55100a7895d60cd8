"""``OVER``: functions over the rows around each row."""
