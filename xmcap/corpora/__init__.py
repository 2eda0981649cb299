"""Corpora: builders of records from releases, folders of one's own and emoji, and checks of them."""
