"""``headrace sql``: statements of a file, or one after the other at a prompt."""
