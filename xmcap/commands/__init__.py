"""The subcommands of `xmcap`. Each imports its dependencies when it is called."""
