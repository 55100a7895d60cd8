"""Manifests, the commit point of an epoch, and the directory that holds them."""
