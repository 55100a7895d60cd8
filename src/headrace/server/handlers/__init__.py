"""The handlers of requests, by subject: small functions from a request to a model."""
