"""Numbers as the report writes them."""


def signed(difference):
  """A difference as the report writes it."""
  return f"{difference:+.3f}".replace("-", "\u2212")
