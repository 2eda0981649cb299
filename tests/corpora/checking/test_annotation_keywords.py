"""The figures of COCO-CN's section III-C on two pictures, by hand."""

from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.corpora.checking import annotation_keywords


def sentence(tagged, source="human"):
  words, parts = zip(*(pair.split(":") for pair in tagged.split()), strict=True)
  return Sentence("zh", source, "".join(words), list(words), list(parts))


IMAGES = [
  Annotated(
    "a", "train", {"zh": ["狗", "天空", "天空"]},
    [
      sentence("一:m 只:q 黑:a 狗:n 在:p 奔跑:vi 。:wj"),  # keywords 黑, 狗, 奔跑: 狗 is not new
      sentence("西蓝花:n"),  # no word of jieba's dictionary; it is new
      sentence("狗:n 跑:v", "mt"),
    ],
  ),
  Annotated("b", "val", {}, [sentence("狗:v 黑:a 狗:v")]),  # no translation; 狗 is a verb twice
]  # fmt: skip


def test_quantities_by_hand():
  found = annotation_keywords.quantities(IMAGES)
  # 一 只 黑 狗 在 奔跑 西蓝花; 狗 is a verb more often than a noun.
  assert (
    found["nouns of the vocabulary"] == f"{1 / 7:.1%}" and found["verbs of the vocabulary"] == f"{2 / 7:.1%}"
  )
  assert found["adjectives of the vocabulary"] == f"{1 / 7:.1%}"
  assert found["distinct tags outside the vocabulary"] == "1"  # 天空
  assert found["a picture's tags outside its sentences"] == "50.0%"
  assert found["novel keywords of a sentence"] == f"{(2 / 3 + 1) / 2:.1%}"
  assert (found["novel nouns"], found["novel verbs"], found["novel adjectives"]) == (
    "50.0%",
    "100.0%",
    "100.0%",
  )
  assert found["vocabulary of the machine"] == "2"
  assert found["sentences with words outside jieba's dictionary"] == "1"
  assert found["characters of a sentence, mean"] == f"{(8 + 3 + 3) / 3:.1f}"
  assert found.keys() == annotation_keywords.PAPER.keys()


def test_sentences_without_words_are_tagged_by_jieba():
  tagged = annotation_keywords.tagged(Sentence("zh", "human", "狗在草地上奔跑。"))
  assert tagged == [("狗", "n"), ("在", "p"), ("草地", "n"), ("上", "f"), ("奔跑", "v")]
