"""Captioners that run without xmcap, and `xmcap export`, which writes them."""
