"""The exchange of batches between stages: envelopes, routing, and the ordered stream at the receiving end."""
