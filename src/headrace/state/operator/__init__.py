"""Operator state: lists and broadcast maps of subtasks, which belong to no key; and who goes on with them."""
