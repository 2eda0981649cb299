from xmcap import processes


def test_there_is_a_core():
  assert processes.available_cores() >= 1
