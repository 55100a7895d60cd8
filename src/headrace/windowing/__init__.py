"""Windows: what records are put into, by whom, when their contents are shown, and which of them."""
