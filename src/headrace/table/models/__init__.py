"""Models (``CREATE MODEL``): their providers, by the name in ``'provider'``, and the predictors that these make."""
