"""Every command, with every input damaged: `python -m tests.fuzz --minutes=20`."""
