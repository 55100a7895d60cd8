"""``OVER``: functions over a window frame of rows."""
