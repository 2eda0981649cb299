"""The processes of a run: joining them, watching for lost or hanging ones, and stopping together."""
