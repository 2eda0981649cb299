"""`xmcap serve`: a web page and a JSON endpoint that caption pictures."""
