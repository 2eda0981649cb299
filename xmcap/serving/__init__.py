"""A web page and a JSON endpoint that caption pictures: `xmcap serve`."""
