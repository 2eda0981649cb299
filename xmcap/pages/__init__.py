"""Pages for people: reports, live pages and what is written of a result."""
