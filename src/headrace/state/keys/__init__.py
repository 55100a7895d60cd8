"""Keys: which are equal, how they are hashed and stored, and which key group each is in."""

from headrace.state.keys.codecs import KeyCodec, KeyColumn

__all__ = ["KeyCodec", "KeyColumn"]
