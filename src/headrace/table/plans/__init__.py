"""Compiled plans: physical plans as documents that later sessions execute, and what may change between two of them."""
