"""Starting runs elsewhere: TPU VMs, GKE by XPK, SLURM, and several processes on this machine.

Every command is an argument list. Where text has to pass a shell (ssh, XPK, a script), `quoting` writes the words.
"""
