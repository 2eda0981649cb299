from xmcap.files import files


def test_there_is_a_core():
  assert files.available_cores() >= 1
