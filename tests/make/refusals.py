"""Errors of functions, as commands print them: one line."""

import pytest

from xmcap.errors import UsageError, XmcapError


def refusal(function, *arguments, error: type[XmcapError] = UsageError, **options) -> str:
  """Returns the message of the error that the call raises."""
  with pytest.raises(error) as caught:
    function(*arguments, **options)
  message = str(caught.value)
  assert "\n" not in message and len(message) < 1000, message
  return message
