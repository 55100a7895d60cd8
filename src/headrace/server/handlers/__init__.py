"""What answers requests, by subject: small functions from a request to a model."""
