"""COCO-CN: both versions, from folders and archives, to records, references and annotations."""

import json

import pytest

from tests.corpora import coco_cn_release as releases
from tests.corpora.building import builds
from tests.make.command import xmcap
from xmcap.corpora.building import annotations, tag_labels
from xmcap.corpora.releases import coco_cn_lines
from xmcap.data import records
from xmcap.data.records import Caption

DOG_WORDS = "一 只 黑 狗 在 草地 上 奔跑 。"
CLOCK_WORDS = "时钟 显示 10:30 , 很 漂亮"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
  return releases.write_images(tmp_path_factory.mktemp("images"))


def build(release, out, *options):
  return xmcap("data", "build", "coco_cn", f"--release={release}", f"--out={out}", "--processes=1", *options)


def found(out):
  return {split: list(records.RecordSource(out, split)) for split in ("train", "val", "test")}


def problems(out):
  lines = [json.loads(line) for line in (out / "problems.jsonl").read_text().splitlines()]
  return lines, {
    kind: sum(line["kind"] == kind for line in lines) for kind in {line["kind"] for line in lines}
  }


def test_coco_cn_later_version_becomes_records(tmp_path, images):
  release = releases.write_folder(tmp_path / "release", releases.plain())
  english = releases.write_english(tmp_path / "captions_train2014.json")
  result = build(release, tmp_path / "out", f"--images={images}", f"--english={english}")
  result.succeeded("no problems with the release")
  by_split = found(tmp_path / "out")
  assert {split: [record.key for record in held] for split, held in by_split.items()} == releases.SPLITS
  first, test = by_split["train"][0], by_split["test"][0]
  assert first.captions == [
    Caption("zh", releases.DOG[0], DOG_WORDS),
    Caption("zh", releases.CLOCK[0], CLOCK_WORDS),
    Caption("zh", "一只黑狗在草地上奔跑。", DOG_WORDS, "mt"),
    Caption("zh", "IBM PC电脑", "IBM PC 电脑", "mt"),
    Caption("en", "A dog runs."),
    Caption("en", "a black dog"),
  ]
  assert first.tags_by_language == {"zh": ["狗", "草地"]} and first.tags == []
  assert [caption.source for caption in test.captions] == ["human", *["translated"] * 5, "mt", "mt"]
  assert test.captions[1] == Caption("zh", "IBM PC电脑", "IBM PC 电脑", "translated")
  assert by_split["val"][0].image == releases.picture(30)


def test_coco_cn_version_1805_has_no_machine_translation(tmp_path, images):
  release = releases.write_archive(tmp_path / "coco-cn-version1805.zip", releases.plain("1805"))
  folders = [f"--images={images / name}" for name in ("train2014", "val2014")]
  build(release, tmp_path / "out", *folders).succeeded()
  by_split = found(tmp_path / "out")
  assert [caption.source for caption in by_split["val"][0].captions] == ["human"]
  assert len(by_split["test"][0].captions) == 6


@pytest.mark.parametrize("version", ["1805", "1805v1.1"])
def test_coco_cn_archive_equals_folder(tmp_path, images, version):
  files = releases.plain(version)
  folder = releases.write_folder(tmp_path / "folder", files)
  (tmp_path / "downloads").mkdir()
  releases.write_archive(tmp_path / "downloads" / f"coco-cn-version{version}.tar.gz", files)
  for release in (folder, tmp_path / "downloads"):
    build(release, tmp_path / f"of_{release.name}", f"--images={images}").succeeded()
  assert found(tmp_path / "of_folder") == found(tmp_path / "of_downloads")
  _, counts = problems(tmp_path / "of_downloads")
  assert counts == {"apple_double": len(files.texts)}


@pytest.mark.parametrize("version", ["1805", "1805v1.1"])
def test_coco_cn_faults_are_counted_and_isolated(tmp_path, images, version):
  files, planted = releases.trapped(version)
  release = releases.write_folder(tmp_path / "release", files)
  whole = releases.write_folder(tmp_path / "whole", releases.plain(version))
  for name, path in (("trapped", release), ("plain", whole)):
    build(path, tmp_path / name, f"--images={images}").succeeded()
  lines, counts = problems(tmp_path / "trapped")
  assert counts == planted
  assert {"kind": "other_split", "where": "coco-cn_train.txt, line 31", "what": f"{releases.SPLITS['test'][0]} is in test"} in lines  # fmt: skip  # noqa: E501
  assert {line["what"] for line in lines if line["kind"] == "no_part_of_speech"} == {"草地"}
  expected = found(tmp_path / "plain")
  expected["train"][1].tags_by_language = {"zh": ["狗", "狗", "d", "og:", "草地", "小狗"]}
  assert found(tmp_path / "trapped") == expected


def test_coco_cn_tag_outside_the_labels_is_counted_and_used(tmp_path, images):
  release = releases.write_folder(tmp_path / "release", releases.plain())
  (tmp_path / "labels.txt").write_text("狗\n草地\n")
  build(release, tmp_path / "out", f"--images={images}", f"--labels={tmp_path / 'labels.txt'}").succeeded()
  lines, counts = problems(tmp_path / "out")
  assert counts == {"unknown_tag": 19} and lines[0]["what"] == "小狗"
  assert found(tmp_path / "out")["train"][1].tags_by_language == {"zh": ["狗", "草地", "小狗"]}


def test_coco_cn_on_bad_stop_ends_at_the_first_problem(tmp_path, images):
  files, _ = releases.trapped()
  release = releases.write_folder(tmp_path / "release", files, apple_double=True)
  result = build(release, tmp_path / "out", f"--images={images}", "--on_bad=stop")
  result.refused("coco-cn_train.txt, line 32: COCO_train2014_000000000001 (duplicate_line)", code=1)


def test_coco_cn_on_bad_stop_ignores_macos_files(tmp_path, images):
  release = releases.write_archive(tmp_path / "release.tar.gz", releases.plain())
  build(release, tmp_path / "out", f"--images={images}", "--on_bad=stop").succeeded()


def test_coco_cn_missing_images_are_counted(tmp_path, images):
  release = releases.write_folder(tmp_path / "release", releases.plain())
  build(release, tmp_path / "out", f"--images={images / 'train2014'}").refused(
    code=1
  )  # none of val's are there
  release = releases.plain()
  release.texts["coco-cn_val.txt"] = "\n".join(releases.SPLITS["train"][5:7])
  release.texts["coco-cn_train.txt"] = "COCO_val2014_000000424243\n" + "\n".join(releases.SPLITS["train"][:5])
  folder = releases.write_folder(tmp_path / "other", release)
  build(folder, tmp_path / "other_out", f"--images={images}").succeeded()
  lines, _ = problems(tmp_path / "other_out")
  assert {"kind": "missing", "where": "COCO_val2014_000000424243", "what": "coco-cn_train.txt"} in lines


def test_coco_cn_no_images_writes_references_and_tags(tmp_path):
  files, planted = releases.trapped()
  release = releases.write_archive(tmp_path / "release.tar.gz", files)
  out = tmp_path / "out"
  counted = "test: 5 pictures with 30 captions, and 10 machine translations"
  build(release, out, "--no_images").succeeded(counted, "no_sentence")
  _, counts = problems(out)
  assert counts == {**planted, "apple_double": len(files.texts)}
  lines = [json.loads(line) for line in (out / "test" / "captions.jsonl").read_text().splitlines()]
  assert lines[0] == {
    "image/key": releases.SPLITS["test"][0],
    "image/locale": "",
    "zh": {
      "caption": [releases.DOG[0], *[releases.LATIN[0]] * 5],
      "caption/tokenized": [DOG_WORDS, *["IBM PC 电脑"] * 5],
    },
  }
  machine = json.loads((out / "train-mt" / "captions.jsonl").read_text().splitlines()[0])
  assert machine["zh"]["caption"] == ["一只黑狗在草地上奔跑。", "IBM PC电脑"]
  tags = [json.loads(line) for line in (out / "val" / "tags.jsonl").read_text().splitlines()]
  assert tags[0] == {"image/key": releases.SPLITS["val"][0], "language": "zh", "tags": ["狗", "草地"]}
  assert not list(out.glob("*.array_record*"))
  held = list(annotations.read(out / annotations.NAME))
  assert len(held) == 39 and held[0].sentences[1].parts == ["n", "v", "t", "wd", "d", "a"]


def test_coco_cn_interrupted_build_without_images_resumes(tmp_path, monkeypatch):
  release = releases.write_folder(tmp_path / "release", releases.plain())
  with monkeypatch.context() as patch:
    patch.setattr(tag_labels, "write_lines", lambda path, tags: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      build(release, tmp_path / "out", "--no_images")
  (tmp_path / "out/train/.captions.jsonl.7.incomplete").touch()  # as a kill leaves it
  build(release, tmp_path / "out", "--no_images").succeeded()
  build(release, tmp_path / "whole", "--no_images").succeeded()
  assert builds.differing(tmp_path / "out", tmp_path / "whole") == []


@pytest.mark.parametrize(
  ("token", "word", "part"),
  [("狗:n", "狗", "n"), ("10:30:t", "10:30", "t"), ("::w", ":", "w"), ("10:30", "10:30", ""), ("狗", "狗", ""),
   ("狗:", "狗:", ""), (":n", ":n", "")],
)  # fmt: skip
def test_coco_cn_word_is_split_at_its_last_colon(token, word, part):
  assert coco_cn_lines.split_word(token) == (word, part)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "give either the pictures with --images=PATH, or --no_images"),
    (["--images=x", "--no_images"], "give either the pictures with --images=PATH, or --no_images"),
    (["--images={empty}"], "empty: contains no pictures"),
    (["--images=gs://bucket/train2014.zip"], "this command reads and writes local files: copy them here"),
    (["--no_images", "--labels={labels}"], "labels.txt, line 2: '狗' is already on line 1"),
  ],
)
def test_coco_cn_usage_errors_are_one_line(tmp_path, arguments, message):
  release = releases.write_folder(tmp_path / "release", releases.plain())
  (tmp_path / "empty").mkdir()
  (tmp_path / "labels.txt").write_text("狗\n狗\n")
  arguments = [word.format(empty=tmp_path / "empty", labels=tmp_path / "labels.txt") for word in arguments]
  build(release, tmp_path / "out", *arguments).refused(message)


def test_coco_cn_incomplete_or_mixed_release_is_refused(tmp_path):
  files = releases.plain()
  both = tmp_path / "both"
  releases.write_folder(both / "a", files)
  releases.write_folder(both / "b", releases.plain("1805"))
  build(both, tmp_path / "out", "--no_images").refused("have one name: name the folder of one version")
  del files.texts["coco-cn_val.txt"]
  part = releases.write_folder(tmp_path / "part", files)
  build(part, tmp_path / "out2", "--no_images").refused("has no coco-cn_val.txt")


_FIRST, _SECOND = releases.SPLITS["val"][0], releases.SPLITS["train"][0]
# As coco-cn_ext.icap2020.txt.
_EXTENSION = f"{_FIRST}#0\t一只黑狗\n{_SECOND}#0\t三只猫。\n{_FIRST}#1\t狗在奔跑\nno id\t狗\n"


def test_coco_cn_extension_file_builds_a_corpus(tmp_path, images):
  release = tmp_path / coco_cn_lines.EXTENSION
  release.write_text(_EXTENSION, encoding="utf-8")
  result = build(release, tmp_path / "out", f"--images={images}")
  result.succeeded("COCO-CN, version icap2020: 2 pictures for train")
  first, second = records.RecordSource(tmp_path / "out", "train")
  assert (first.key, second.key) == (_FIRST, _SECOND)  # in the order of the file
  assert (
    first.captions == [Caption("zh", "一只黑狗"), Caption("zh", "狗在奔跑")] and not first.tags_by_language
  )
  assert first.image == releases.picture(30)
  assert problems(tmp_path / "out")[1] == {"missing_field": 1}
  build(tmp_path, tmp_path / "texts", "--no_images").succeeded()  # the folder that has it
  assert {path.name for path in (tmp_path / "texts/train").iterdir()} == {"captions.jsonl"}
  assert "20,341" not in xmcap("data", "stats", tmp_path / "out").succeeded("4,573").out


def test_coco_cn_extension_beside_a_release_is_not_read(tmp_path):
  files = releases.plain()
  files.texts[coco_cn_lines.EXTENSION] = _EXTENSION
  release = releases.write_folder(tmp_path / "release", files)
  ignored = f"{coco_cn_lines.EXTENSION} is not read: build it apart"
  build(release, tmp_path / "out", "--no_images").succeeded(ignored, "train: 30 pictures")


def test_coco_cn_scores_among_tags_are_no_tags(tmp_path):
  files = releases.plain()
  first, second = releases.SPLITS["train"][:2]
  tags = files.name("tags")
  files.texts[tags] = files.texts[tags].replace(f"{first} 狗 草地", f"{first} 狗 0.93 草地 0.2", 1)
  files.texts[tags] = files.texts[tags].replace(f"{second} 狗", f"{second} 2 狗", 1)
  release = releases.write_folder(tmp_path / "release", files)
  build(release, tmp_path / "out", "--no_images").succeeded()
  lines, counts = problems(tmp_path / "out")
  assert counts == {"missing_field": 1, "number_tag": 1} and "a tagger's scores" in lines[0]["what"]
  held = json.loads((tmp_path / "out/train/tags.jsonl").read_text().splitlines()[0])
  assert held == {"image/key": second, "language": "zh", "tags": ["2", "狗", "草地", "小狗"]}


def test_coco_cn_truncated_archive_is_refused(tmp_path):
  archive = releases.write_archive(tmp_path / "release.tar.gz", releases.plain())
  archive.write_bytes(archive.read_bytes()[:-100])
  build(archive, tmp_path / "out", "--no_images").refused("release.tar.gz", code=1)
