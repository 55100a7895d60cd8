"""Windows that are shown at intervals before they end."""
