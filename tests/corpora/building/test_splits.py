"""Split lists of COCO and CC3M: the images of any shard, in order, for any line ending."""

import pickle

import pytest

from xmcap.corpora.building import splits
from xmcap.corpora.building.image_search import Wanted
from xmcap.corpora.building.options import BuildInProgress, Options
from xmcap.corpora.releases.cc3m35l import read_tsv
from xmcap.errors import UsageError


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_cc3m_split_urls_by_shard(tmp_path, count, end, last):
  text = "".join(
    f"a cat no {number}\thttp://x.org/{number}?a=1\tb{end}".replace("\tb", "")
    for number in range(1, count + 1)
  )
  path = tmp_path / "train.tsv"
  path.write_bytes((text if last else text.removesuffix(end)).encode())
  listed = splits.write(BuildInProgress(tmp_path, Options(shard_pictures=3)), "train", read_tsv(path), None)
  listed = pickle.loads(pickle.dumps(listed))
  assert listed.count == count
  assert [place for shard in range(listed.shards) for place in listed.places(shard)] == list(range(count))
  wanted = [picture for shard in range(listed.shards) for picture in listed.wanted(shard)]
  assert [(picture.key, picture.url) for picture in wanted] == [
    (f"{number:08d}", f"http://x.org/{number}?a=1") for number in range(1, count + 1)
  ]
  assert wanted[0].where == "train.tsv, line 1 (http://x.org/1?a=1)"


def test_coco_split_file_names_by_shard(tmp_path):
  pictures = [Wanted(f"{number:012d}", "where", f"train2014/{number}.jpg") for number in range(5)]
  listed = splits.write(BuildInProgress(tmp_path, Options(shard_pictures=2)), "train", pictures, None)
  assert [listed.wanted(shard) for shard in range(listed.shards)] == [
    pictures[:2],
    pictures[2:4],
    pictures[4:],
  ]


@pytest.mark.parametrize("text", ["", "a cat\n", "a cat\tnone\n", "http://x.org/1\ta cat\n"])
def test_malformed_cc3m_tsv_is_refused(tmp_path, text):
  (tmp_path / "train.tsv").write_text(text)
  with pytest.raises(UsageError, match="train.tsv, line 1: not `caption<TAB>URL`"):
    list(read_tsv(tmp_path / "train.tsv"))


def test_missing_cc3m_tsv_is_refused(tmp_path):
  with pytest.raises(UsageError, match="cannot read .*train.tsv: No such file"):
    list(read_tsv(tmp_path / "train.tsv"))
