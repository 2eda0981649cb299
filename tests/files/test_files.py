from xmcap import processes


def test_available_cores_is_at_least_1():
  assert processes.available_cores() >= 1
