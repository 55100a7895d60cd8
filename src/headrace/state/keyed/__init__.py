"""Keyed state: values, lists and maps of keys, and of pairs of key and namespace, in runs."""
