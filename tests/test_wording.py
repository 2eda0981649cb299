"""Names of paths in messages and tables."""

import pytest

from xmcap import wording


@pytest.mark.parametrize(
  "paths, names",
  [
    ([], []),
    (["a/b"], ["b"]),
    (["runs/a/eval/retrieval", "runs/b/eval/retrieval"], ["a", "b"]),
    (["/x/a/eval/noto/", "/y/b/eval/noto"], ["x/a", "y/b"]),
    (["a/eval/retrieval", "a/eval/noto"], ["retrieval", "noto"]),
    (["a/eval/x", "b/eval/x", "b/eval/y"], ["a/x", "b/x", "b/y"]),
    (["a/x", "x"], ["a", "x"]),
    (["gs://one/run", "gs://two/run", "/disk/two/run"], ["gs/one", "gs/two", "disk/two"]),
    (["a/x", "a/x", "b/x"], ["a", "a", "b"]),
    (["a/x", "a/x"], ["x", "x"]),
  ],
)
def test_names_of_paths_are_what_differs(paths, names):
  assert wording.names_of_paths(paths) == names
