"""`xmcap export`: a trained captioner as files that others run without xmcap."""
