"""A small COCO-CN, as published: both versions, a folder or an archive, with every trap that the real one has."""

import dataclasses
import json
import pathlib
import zipfile

from tests.make import images
from tests.make.files import tarred

SPLITS = {
  "train": [f"COCO_train2014_{number:012d}" for number in range(1, 31)],
  "val": [f"COCO_val2014_{number:012d}" for number in range(31, 35)],
  "test": [f"COCO_train2014_{number:012d}" for number in range(35, 40)],
}
# Sentence and its words as Boson gives them; the second holds a colon in a word, and one has Latin words.
DOG = ("一只黑狗在草地上奔跑。", "一:m 只:q 黑:a 狗:n 在:p 草地:n 上:f 奔跑:vi 。:wj")
CLOCK = ("时钟显示10:30,很漂亮", "时钟:n 显示:v 10:30:t ,:wd 很:d 漂亮:a")
LATIN = ("IBM PC电脑", "IBM:nx PC:nx 电脑:n")

NAMES = {
  "1805v1.1": {
    "human": "imageid.human-written-caption", "tags": "imageid.human-written-tags",
  },
  "1805": {"human": "imageid.caption", "tags": "imageid.tags"},
}  # fmt: skip


@dataclasses.dataclass
class Files:
  """The text files of a version: name -> text; `version` and the names of its roles."""

  version: str
  texts: dict[str, str] = dataclasses.field(default_factory=dict)

  def name(self, role: str, words: bool = False) -> str:
    return f"{NAMES[self.version].get(role, role)}{'.bosonseg' if words else ''}.txt"


def plain(version: str = "1805v1.1") -> Files:
  """Nothing wrong: a sentence a picture, two of the first five of train; two or three tags a picture."""
  files = Files(version)
  for split, keys in SPLITS.items():
    # The validation list has no final line end.
    files.texts[f"coco-cn_{split}.txt"] = "\n".join(keys) + ("" if split == "val" else "\n")
  human, words, tags = [], [], []
  for number, key in enumerate(key for keys in SPLITS.values() for key in keys):
    for place, (sentence, cut) in enumerate([DOG, CLOCK] if number < 5 else [DOG]):
      human.append(f"{key}#{place}\t{sentence}\n")
      words.append(f"{key}#{place} {cut}\n")
    tags.append(f"{key} 狗 草地{' 小狗' if number % 2 else ''}\n")
  files.texts[files.name("human")] = "".join(human)
  files.texts[files.name("human", words=True)] = "".join(words)
  files.texts[files.name("tags")] = "".join(tags)
  translated = [(key, place) for key in SPLITS["test"] for place in range(5)]
  zhm = "imageid.manually-translated-caption"
  files.texts[f"{zhm}.txt"] = "".join(f"{key}#zhm#{place} {LATIN[0]}\n" for key, place in translated)
  files.texts[f"{zhm}.bosonseg.txt"] = "".join(f"{key}#zhm#{place} {LATIN[1]}\n" for key, place in translated)
  if version == "1805v1.1":
    machine = [(key, place) for keys in SPLITS.values() for key in keys for place in range(2)]
    files.texts["imageid.machine-translated-caption.bosonseg.txt"] = "".join(
      f"{key}#zhbDec#{place} {LATIN[1] if place else DOG[1]}\n" for key, place in machine
    )
  return files


def trapped(version: str = "1805v1.1") -> tuple[Files, dict[str, int]]:
  """Every trap, and how many problems of each kind they make; the usable rest is as in `plain`, but for odd tags."""
  files = plain(version)
  texts = files.texts
  human, words, tags = files.name("human"), files.name("human", words=True), files.name("tags")
  first, second = SPLITS["train"][:2]
  stranger = "COCO_train2014_000000999999"
  texts["coco-cn_train.txt"] += f"{SPLITS['test'][0]}\n{first}\nno id\n"  # in two splits; twice; no id
  texts[human] += f"{first}#0\t又一句话\n"  # ID#n again
  texts[human] += f"{stranger}#0\t一只猫\n"  # in no list
  texts[human] += f"{second}#7\t \n"  # nothing in it
  texts[human] += f"{second}\t没有号码\n"
  texts[words] = texts[words].replace("草地:n", "草地", 1)  # no part of speech
  texts[words] += f"{second}#9 没有:v 句子:n\n"  # no such sentence
  texts[tags] += f"{stranger} 猫\n{first} 狗\n{second}\n"
  texts[tags] = texts[tags].replace(f"{second} 狗", f"{second} 狗 狗 d og:", 1)  # dirty tags are kept
  counts = {
    "other_split": 1, "duplicate_line": 3, "missing_field": 3, "unknown_id": 2, "empty_caption": 1,
    "no_part_of_speech": 1, "no_sentence": 1,
  }  # fmt: skip
  return files, counts


def write_folder(folder: pathlib.Path, files: Files, apple_double: bool = False) -> pathlib.Path:
  folder.mkdir(parents=True, exist_ok=True)
  for name, text in files.texts.items():
    (folder / name).write_text(text, encoding="utf-8")
    if apple_double:
      (folder / f"._{name}").write_bytes(b"\0\5\26\7Mac OS X")
  return folder


def write_archive(path: pathlib.Path, files: Files) -> pathlib.Path:
  """A .tar.gz or .zip in which each file has a `._` member beside it."""
  top = f"coco-cn-version{files.version}"
  members = [
    (f"{top}/{prefix}{name}", b"\0\5\26\7Mac OS X" if prefix else text.encode())
    for name, text in files.texts.items()
    for prefix in ("._", "")
  ]
  if path.suffix == ".zip":
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
      for name, data in members:
        archive.writestr(name, data)
  else:
    tarred(path, *members, mode="w:gz")
  return path


def picture(number: int) -> bytes:
  return images.plain(number, (16, 16))


def write_images(folder: pathlib.Path) -> pathlib.Path:
  """The pictures, in train2014 and val2014, and one more that the release does not name."""
  keys = [key for keys in SPLITS.values() for key in keys]
  for number, key in enumerate([*keys, "COCO_val2014_000000424242"]):
    path = folder / key.split("_")[1] / f"{key}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number))
  return folder


def write_english(path: pathlib.Path) -> pathlib.Path:
  """MSCOCO's captions of the first two pictures and of one that COCO-CN lacks, not in the order of their ids."""
  rows = [(1, 90, "A dog runs. "), (2, 4, "A clock"), (1, 7, "a black dog"), (424242, 8, "a cat")]
  path.write_text(
    json.dumps(
      {
        "images": [{"id": number} for number in (1, 2, 424242)],
        "annotations": [{"image_id": image, "id": id, "caption": text} for image, id, text in rows],
      }
    )
  )
  return path
