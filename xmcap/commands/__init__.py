"""The subcommands of `xmcap`; each imports what it needs when it is called."""
