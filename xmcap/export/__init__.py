"""`xmcap export`: writes a trained captioner in formats that run without xmcap."""
