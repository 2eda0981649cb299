"""Labels by COCO-CN's rule, and by frequency in other languages; the references of tags."""

import json

import pytest

from tests.corpora import coco_cn_release as releases
from tests.make import files
from tests.make.command import xmcap
from xmcap.corpora.building import tag_labels
from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.errors import UsageError


def picture(number, words, tags=(), split="train", source="human", language="zh"):
  parts = [word.rpartition(":") for word in words.split()]
  text = "".join(word for word, _, _ in parts)
  sentence = Sentence(language, source, text, [word for word, _, _ in parts], [part for _, _, part in parts])
  return Annotated(f"{split}{number}", split, {"zh": list(tags)} if tags else {}, [sentence])


def test_tag_labels_are_nouns_long_verbs_adjectives_and_tags():
  words = "狗:n 名:nr 跑:v 奔跑:vi 黑:a 黑色:an 的:ude1 草地上:f 一起:d ，:wd"
  made = tag_labels.make([picture(0, words, ["树", "狗"])], "zh", least=1)
  assert made.counts == dict.fromkeys(["名", "奔跑", "树", "狗", "黑色"], 1)


def test_tag_label_needs_a_minimum_of_training_images():
  pictures = [picture(number, "狗:n 狗:n 猫:n" if number < 19 else "狗:n") for number in range(20)]
  pictures += [picture(0, "猫:n", split="val")]  # counts for nothing
  made = tag_labels.make(pictures, "zh")
  assert made.counts == {"狗": 20}
  assert made.images[-1] == ("val0", "val", [])


def test_tag_labels_are_sorted_by_image_count():
  made = tag_labels.make([picture(0, "乙:n 甲:n 丙:n"), picture(1, "甲:n")], "zh", least=1, most=2)
  assert list(made.counts.items()) == [("甲", 2), ("丙", 1)]
  assert made.images[0] == ("train0", "train", ["甲", "丙"])


def test_tag_labels_from_a_list_replace_the_rule():
  made = tag_labels.make([picture(0, "狗:n 的:u", ["树"], "test")], "zh", given=["树", "水", "狗"])
  assert made.counts == {"树": 0, "水": 0, "狗": 0}
  assert made.images == [("test0", "test", ["树", "狗"])]


def test_human_tags_are_not_counted_for_machine_translations():
  made = tag_labels.make([picture(0, "狗:n", ["树"], source="mt")], "zh", source="mt", least=1)
  assert list(made.counts) == ["狗"]


def test_english_tag_labels_are_nouns_verbs_and_adjectives():
  texts = ["A man's two dogs are sitting on the red couch", "Dogs, dogs; a TV!"]
  pictures = [Annotated(f"{n}", "train", {}, [Sentence("en", "human", text)]) for n, text in enumerate(texts)]
  made = tag_labels.make(pictures, "en", least=1)
  assert made.counts == {"dogs": 2, "are": 1, "couch": 1, "man": 1, "red": 1, "sitting": 1, "tv": 1}


def test_jieba_tags_parts_of_speech_of_unsegmented_text():
  # jieba 0.42.1: posseg.cut
  assert tag_labels.tag_words("一只黑色的狗在草地上奔跑") == [
    ("一只", "m"), ("黑色", "n"), ("的", "uj"), ("狗", "n"), ("在", "p"), ("草地", "n"), ("上", "f"), ("奔跑", "v"),
  ]  # fmt: skip
  made = tag_labels.make(
    [Annotated("a", "train", {}, [Sentence("zh", "human", "狗在草地上奔跑")])], "zh", least=1
  )
  assert list(made.counts) == ["奔跑", "狗", "草地"]


def test_jieba_does_not_load_its_cache(monkeypatch):
  import jieba

  monkeypatch.setattr(jieba.marshal, "load", lambda file: pytest.fail("a cache was read"))
  tag_labels._tagger.cache_clear()
  assert tag_labels.tag_words("狗")[0][0] == "狗"


@pytest.mark.parametrize(
  ("pictures", "message"),
  [
    ([picture(0, "狗:n", split="test")], "no picture is in the split train: give the labels by --labels"),
    ([picture(0, "狗:n")], "'zh' of 1 picture, no tag or word is on 20"),
  ],
)
def test_tag_labels_without_candidates_are_refused(pictures, message):
  with pytest.raises(UsageError, match=message):
    tag_labels.make(pictures, "zh")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
  """The texts of a small release, without pictures."""
  folder = tmp_path_factory.mktemp("release")
  release = releases.write_folder(folder / "release", releases.plain())
  xmcap("data", "build", "coco_cn", f"--release={release}", f"--out={folder}/out", "--no_images").succeeded()
  return folder / "out"


def test_data_tags_command_writes_labels_and_references(texts, tmp_path):
  said = xmcap("data", "tags", texts, f"--out={tmp_path}/labels", "--least=16").succeeded().out
  # In the plain release all 30 pictures have these three; every second one is tagged 小狗: 15 of train.
  assert (tmp_path / "labels" / "labels.txt").read_text().split() == ["奔跑", "狗", "草地"]
  assert "3 labels; training pictures a label: 30 to 30, mean 30.0" in said
  assert ["val", "4", "3.00", "0"] in [line.split() for line in said.splitlines()]
  lines = files.rows(tmp_path / "labels" / "test.jsonl")
  assert lines[0] == {
    "image/key": releases.SPLITS["test"][0],
    "language": "zh",
    "tags": ["奔跑", "狗", "草地"],
  }
  assert [line["image/key"] for line in lines] == releases.SPLITS["test"]


def test_data_stats_of_coco_cn(texts):
  lines = [
    line.split() for line in xmcap("data", "stats", texts, "--processes=1").succeeded().out.splitlines()
  ]
  assert ["train", "30", "35", "60", "0"] in lines  # pictures; sentences by people, a machine, translators
  assert ["all", "39", "44", "78", "25"] in lines
  # DOG: 8 words and 10 characters without its stop, on every picture; CLOCK: 5 words, 12 characters, on five.
  mean_words, mean_characters = (30 * 8 + 5 * 5) / 35, (30 * 10 + 5 * 12) / 35
  assert [
    "train", "35", "13", "5", f"{mean_words:.2f}", "8", "10", f"{mean_characters:.2f}", "12",
  ] in lines  # fmt: skip
  assert ["val", "4", "8", "8", "8.00", "8", "10", "10.00", "10"] in lines
  assert [
    "train",
    "30",
    "75",
    "3",
    "2",
    "2.50",
    "3",
  ] in lines  # tags: pictures, total, distinct, from, mean, to
  assert ["human", "test", "5", "1,053", "-1,048"] in lines
  assert ["labels", "train", "3", "744", "-741"] in lines


@pytest.mark.parametrize(
  ("options", "message"),
  [
    (["--source=guess"], "--source=guess: choose one of human, mt, translated, tags"),
    (["--language=xx-nowhere"], "--language=xx-nowhere: not a language code"),
    (
      ["--language=en"],
      "no picture has a label: 0 sentences of source human and 0 tags in 'en'; nor are there any",
    ),
    (
      ["--source=mt", "--tags=tags.jsonl"],
      "--tags: with --source=mt no tags count; leave one of the two out",
    ),
    (["--source=translated", "--map=map.tsv"], "--map: with --source=translated no tags count"),
    (["--labels=labels.txt", "--most=5"], "--most is for labels by the rule"),
  ],
)
def test_data_tags_usage_errors_are_one_line(texts, tmp_path, options, message):
  xmcap("data", "tags", texts, f"--out={tmp_path}/labels", *options).refused(message)


@pytest.mark.parametrize(
  ("row", "message"),
  [
    (
      {"image/key": "elsewhere", "language": "zh", "tags": ["狗"]},
      "none of its pictures (elsewhere) is in the corpus",
    ),
    ({"image/key": "elsewhere", "language": "en", "tags": ["dog"]}, "no tags in zh"),
  ],
)
def test_data_tags_refuses_tags_of_other_pictures_or_languages(texts, tmp_path, row, message):
  path = files.jsonl(tmp_path / "tags.jsonl", row)
  xmcap("data", "tags", texts, f"--out={tmp_path}/labels", f"--tags={path}").refused(message)


@pytest.mark.parametrize(
  ("source", "read"),  # the sentences of all splits that `data stats` counts below
  [
    ("human", "44 sentences of source human and 97 tags"),
    ("mt", "78 sentences of source mt"),
    ("tags", "97 tags"),
  ],
)
def test_data_tags_counts_what_it_reads(texts, tmp_path, source, read):
  said = xmcap(
    "data", "tags", texts, f"--out={tmp_path}/labels", f"--source={source}", "--least=1"
  ).succeeded()
  assert said.out.splitlines()[0] == f"{read} in 'zh' of 39 pictures"


def test_data_tags_says_which_sources_there_are():
  sentences = [Sentence("zh", "mt", "狗"), Sentence("en", "human", "a dog")]
  with pytest.raises(
    UsageError, match="0 sentences of source human and 0 tags in 'zh'; there are others by source: mt 1"
  ):
    tag_labels.make([Annotated("a", "train", {}, sentences)], "zh")


def test_data_tags_maps_english_tags_of_a_file(texts, tmp_path):
  first, second, third = releases.SPLITS["train"][:3]
  rows = [
    (first, ["auto", "car", "glass"]),
    (second, ["car", "sky"]),
    (third, ["car", "glass", *map(str, range(19))]),
  ]
  lines = [json.dumps({"image/key": key, "language": "en", "tags": tags}) for key, tags in rows]
  (tmp_path / "tags.jsonl").write_text("\n".join(lines))
  (tmp_path / "map.tsv").write_text("car\t汽车\nauto\t汽车\nglass\t玻璃 眼镜\n")
  (tmp_path / "classes.txt").write_text("汽车\n狗\n")
  options = [f"--{name}={tmp_path}/{file}" for name, file in (("tags", "tags.jsonl"), ("map", "map.tsv"))]
  tags = ["data", "tags", texts, f"--out={tmp_path}/labels", "--least=1", *options]
  xmcap(*tags, f"--classes={tmp_path}/classes.txt").succeeded(
    "1 of 2 classes are labels; 1 labels are others"
  )
  assert (tmp_path / "labels/labels.txt").read_text().splitlines() == ["汽车", "玻璃 眼镜"]
  lines = [json.loads(line) for line in (tmp_path / "labels/train.jsonl").read_text().splitlines()[:3]]
  # The second has one label, the third 21 tags.
  assert [line["tags"] for line in lines] == [["汽车", "玻璃 眼镜"], [], []]
  (tmp_path / "map.tsv").write_text("car 汽车\n")
  xmcap(*tags).refused("map.tsv, line 1: give an English tag, a tab and its label")
  (tmp_path / "map.tsv").write_text("car\t汽车\ncar\t车\n")
  xmcap(*tags).refused("map.tsv, line 2: 'car' has another label before: keep one of them")


def test_data_tags_refuses_a_folder_without_a_corpus(tmp_path):
  xmcap("data", "tags", tmp_path, f"--out={tmp_path}/labels").refused("holds no corpus")
