"""Builders and checks of corpora: of releases, folders of one's own, and emoji."""
