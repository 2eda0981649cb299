"""Tokenizers that pretrained text towers bring: what their files say, and the codes of languages in them."""
