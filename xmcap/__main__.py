"""`python -m xmcap` is the command `xmcap` of the Python that runs it, also where no PATH leads there."""

from xmcap.cli import console

if __name__ == "__main__":
  console()
