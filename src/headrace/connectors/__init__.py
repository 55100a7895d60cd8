"""Connectors: sources and sinks of records.

:mod:`headrace.connectors.source` and :mod:`headrace.connectors.sink` are the frameworks. Every
connector is a module or a folder.
"""
