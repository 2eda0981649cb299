"""The processes of a run: who is there, who hangs, when to stop."""
