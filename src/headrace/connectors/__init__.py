"""Where records come from and where they go.

:mod:`headrace.connectors.source` and :mod:`headrace.connectors.sink` are the frameworks. Every
connector is a module or a folder.
"""
