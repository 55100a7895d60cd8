"""Two streams that one function works on: connected, or one of them broadcast."""
