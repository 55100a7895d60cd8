"""Windows over keyed streams: column by column for built-in aggregates, row by row for functions of the user."""
