"""Windows that overlap: they share panes, of which each is added up once."""
