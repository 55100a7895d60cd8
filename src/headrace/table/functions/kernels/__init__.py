"""Kernels: SQL's scalar functions of whole Arrow columns."""
