"""Two inputs in event-time order: records wait until event time has come to them."""
