"""Decoding captions: searches with a key-value cache.

The package loads all searches: gin may name each of them, whatever else of it is used.
"""

from xmcap.models.decoding import beam_search, search

__all__ = ["beam_search", "search"]
