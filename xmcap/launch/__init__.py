"""Launches runs: on TPU VMs, on GKE with XPK, on SLURM, and as several processes on this machine.

Every command is an argument list. Text that passes through a shell (ssh, XPK, a script) is quoted by `quoting`.
"""
