"""A corpus from a folder of images and captions: any layout gives the same records; problems are counted."""

import csv
import json
import os
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import lazily
from tests.corpora.building.builds import differing
from tests.make import files
from tests.make.command import xmcap
from tests.make.files import tarred
from tests.make.images import plain
from xmcap.corpora.building import build
from xmcap.corpora.building.options import Options
from xmcap.corpora.folder import own
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames
from xmcap.data import records
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation.record_references import RecordReferences

tfds = lazily.Module("tensorflow_datasets")

CAPTIONS = {
  f"a/{number:02d}.jpg": {"en": f"ball {number}", "th": f"ลูก {number}", "pt-BR": f"bola {number}"}
  for number in range(6)
}
SPLITS = SplitRule("train:0.5,test:0.5")


def jpeg(number):
  return plain(10 * number, (24, 16), "JPEG")


@pytest.fixture
def photos(tmp_path):
  (tmp_path / "photos/a").mkdir(parents=True)
  for number, name in enumerate(CAPTIONS):
    (tmp_path / "photos" / name).write_bytes(jpeg(number))
  return tmp_path / "photos"


def made(tmp_path, captions, images=None, columns=None, rule=SPLITS, out="out", **options):
  corpus = own.Folder(captions, images, columns or ColumnNames(), rule)
  return build.build(corpus, tmp_path / out, Options(**options), processes=1)


def held(out):
  """Key -> language -> captions, of all splits."""
  found = {}
  for split in records.splits(out):
    for record in records.RecordSource(out, split):
      by_language = found.setdefault(record.key, {})
      for caption in record.captions:
        by_language.setdefault(caption.language, []).append(caption.text)
  return found


def expected(key=lambda name: name[2:-4], codes=("en", "th", "pt-BR")):
  return {key(name): {code: [texts[code]] for code in codes} for name, texts in CAPTIONS.items()}


def write_json_lines(path, rows):
  path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
  return path


def write_table(path, header, rows, delimiter=",", encoding="utf-8"):
  with open(path, "w", newline="", encoding=encoding) as file:
    csv.writer(file, delimiter=delimiter).writerows([header, *rows])
  return path


def long_table(path):
  rows = [(name, code, text) for name, texts in CAPTIONS.items() for code, text in texts.items()]
  return write_table(path / "long.csv", ("file", "language", "caption"), rows)


def wide_table(path):
  rows = [(name.upper()[2:-4].lower(), *texts.values()) for name, texts in CAPTIONS.items()]
  return write_table(path / "wide.csv", ("image", "EN", "caption_th", "pt_br"), rows, ";", "utf-8-sig")


def tabs(path):
  rows = [(f"/home/me/photos/{name}", *texts.values()) for name, texts in CAPTIONS.items()]
  return write_table(path / "table.tsv", ("path", "en", "th", "pt-BR"), rows, "\t")


def plain_lines(path):
  rows = [
    {"image/key": name[2:-4], "language": code, "caption": text}
    for name, texts in CAPTIONS.items()
    for code, text in texts.items()
  ]
  return write_json_lines(path / "plain.jsonl", rows)


def released_lines(path):
  rows = [
    {
      "image/key": name[2:-4],
      "image/locale": "th",
      **{code: {"caption": [text]} for code, text in texts.items()},
    }
    for name, texts in CAPTIONS.items()
  ]
  return write_json_lines(path / "release.jsonl", rows)


def lists(path):
  rows = [
    {"file_name": name, "captions": [{"language": code, "text": text} for code, text in texts.items()]}
    for name, texts in CAPTIONS.items()
  ]
  return write_json_lines(path / "lists.jsonl", rows)


@pytest.mark.parametrize("write", [long_table, wide_table, tabs, plain_lines, released_lines, lists])
def test_caption_table_layouts_give_the_same_records(write, tmp_path, photos):
  report = made(tmp_path, write(tmp_path), photos)
  assert not report.problems.counts
  assert held(report.out) == expected()
  assert records.read_languages(report.out) == ("en", "th", "pt-BR")


def test_coco_annotations_give_the_same_records(tmp_path, photos):
  images = [{"id": number, "file_name": name} for number, name in enumerate(CAPTIONS)]
  annotations = [
    {"id": number, "image_id": number, "caption": texts["en"]}
    for number, texts in enumerate(CAPTIONS.values())
  ]
  (tmp_path / "coco.json").write_text(
    json.dumps({"images": images, "annotations": [*annotations, {"image_id": 99, "caption": "x"}]})
  )
  with pytest.raises(UsageError, match=r"coco.json, annotations\[0\]: .*--language=CODE"):
    made(tmp_path, tmp_path / "coco.json", photos, out="none")
  report = made(tmp_path, tmp_path / "coco.json", photos, ColumnNames(default_language="en"))
  assert held(report.out) == expected(codes=("en",))
  assert report.problems.counts == {"unknown_id": 1}


def test_flickr8k_folder_is_read(tmp_path, photos):
  lines = (f"{picture[2:]},{texts['en']}\n" for picture, texts in CAPTIONS.items())
  (photos / "captions.txt").write_text("image,caption\n" + "".join(lines), "utf-8")
  report = made(tmp_path, photos, None, ColumnNames(default_language="en"))
  assert held(report.out) == expected(codes=("en",))


def test_text_without_image_names_is_refused(tmp_path, photos):
  (tmp_path / "captions.txt").write_text("a dog\na cat\n", "utf-8")
  with pytest.raises(
    UsageError, match=r"captions without their pictures: write NAME.jpg, a tab and a caption"
  ):
    made(tmp_path, tmp_path / "captions.txt", photos, ColumnNames(default_language="en"))


def test_coco_images_without_a_usable_id_are_counted(tmp_path, photos):
  images = [{"id": [], "file_name": "a/01.jpg"}, {"id": 0, "file_name": "a/00.jpg"}, "a/02.jpg"]
  annotations = [{"image_id": 0, "caption": "ball 0"}]
  (tmp_path / "coco.json").write_text(json.dumps({"images": images, "annotations": annotations}))
  report = made(
    tmp_path, tmp_path / "coco.json", photos, ColumnNames(default_language="en"), SplitRule("train:1")
  )
  assert held(report.out) == {"00": {"en": ["ball 0"]}}
  assert report.problems.counts == {"missing_field": 2, "no_captions": 5}


def test_webdataset_keys_repeated_in_each_tar(tmp_path):
  (tmp_path / "tars").mkdir()
  for place, split in enumerate(("train", "val")):
    entries = []
    for number, texts in enumerate(list(CAPTIONS.values())[3 * place : 3 * place + 3]):
      entries += [
        (f"{number:03d}.jpg", jpeg(3 * place + number)),
        (f"{number:03d}.txt", texts["en"].encode()),
        (f"{number:03d}.json", b'{"language": "en", "width": 24}'),
        (f"{number:03d}.th.txt", texts["th"].encode()),
      ]
    tarred(tmp_path / f"tars/{split}-{place:05d}.tar", *entries)
  columns = ColumnNames(captions=("caption", "caption_th"))
  report = made(tmp_path, tmp_path / "tars", None, columns, SplitRule("folder"))
  assert {split: counts["records"] for split, counts in report.splits.items()} == {
    "train": 3,
    "validation": 3,
  }
  assert sorted(str(texts) for texts in held(report.out).values()) == sorted(
    str(texts) for texts in expected(codes=("en", "th")).values()
  )
  assert report.problems.counts == {"renamed_key": 6}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_parquet_and_arrow_with_image_bytes(form, tmp_path):
  (tmp_path / "set").mkdir()
  for place, split in enumerate(("train", "test")):
    part = list(CAPTIONS.items())[3 * place : 3 * place + 3]
    table = pa.table(
      {
        "image": [{"bytes": jpeg(number), "path": name} for number, (name, _) in enumerate(part, 3 * place)],
        "captions": [[texts["en"]] for _, texts in part],
        "lang": ["en"] * 3,
      }
    )
    if form == "parquet":
      pq.write_table(table, tmp_path / f"set/{split}-00000-of-00001.parquet")
      continue
    (tmp_path / "set" / split).mkdir()
    path = str(tmp_path / f"set/{split}/data-00000-of-00001.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
      writer.write_table(table)
  report = made(tmp_path, tmp_path / "set", rule=SplitRule("folder"))
  assert held(report.out) == expected(codes=("en",))
  assert {split: counts["records"] for split, counts in report.splits.items()} == {"train": 3, "test": 3}


def test_parquet_with_unusable_image_columns(tmp_path):
  rows = [
    {"image": {"bytes": "no bytes", "path": None}, "en": "a ball"},
    {"image": {"bytes": None, "path": "0.jpg"}, "en": "a ball"},
  ]
  about = json.dumps({"info": {"features": {"en": {"names": 5, "_type": "ClassLabel"}}}})
  table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": about})
  pq.write_table(table, tmp_path / "TABLE.PARQUET")
  pictures_of(tmp_path, ["0.jpg"])
  report = made(tmp_path, tmp_path / "TABLE.PARQUET", rule=SplitRule("train:1"))
  assert held(report.out) == {"0": {"en": ["a ball"]}}
  assert report.problems.counts == {"missing_field": 1}
  with pytest.raises(UsageError, match=r"TABLE.PARQUET, row 0: no column 'photo'; there are image, en"):
    made(tmp_path, tmp_path / "TABLE.PARQUET", columns=ColumnNames("photo"), out="none")


def pictures_of(folder, names, first=0):
  for number, name in enumerate(names, first):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(jpeg(number))


def write_metadata(path, rows):
  if path.suffix == ".csv":
    return write_table(path, list(rows[0]), [list(row.values()) for row in rows])
  if path.suffix == ".jsonl":
    return write_json_lines(path, rows)
  return pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_imagefolder_metadata_per_split_or_at_the_root(kind, tmp_path):
  """As `datasets` 5.2 reads them: a metadata file a split, whose pictures have the same names; or one for all."""
  splits = ("train", "validation", "test")
  each, root = tmp_path / "each", tmp_path / "root"
  all_rows = []
  for place, split in enumerate(splits):
    texts = list(CAPTIONS.values())[2 * place : 2 * place + 2]
    pictures_of(each / split, ["0.jpg", "1.jpg"], 2 * place)
    pictures_of(root / split, [f"{2 * place}.jpg", f"{2 * place + 1}.jpg"], 2 * place)
    rows = [
      {"file_name": f"{number}.jpg", **{f"caption_{code}": text for code, text in by_code.items()}}
      for number, by_code in enumerate(texts)
    ]
    write_metadata(each / split / f"metadata.{kind}", rows)
    for number, row in enumerate(rows):
      all_rows.append({**row, "file_name": f"{split}/{2 * place + number}.jpg"})
  write_metadata(root / f"metadata.{kind}", all_rows)
  for folder, renamed in ((each, {"renamed_key": 6}), (root, {})):
    report = made(tmp_path, folder, rule=SplitRule("folder"), out=f"{folder.name}-out")
    assert report.problems.counts == renamed
    assert {split: counts["records"] for split, counts in report.splits.items()} == dict.fromkeys(splits, 2)
    found = {str(texts) for texts in held(report.out).values()}
    assert found == {str(texts) for texts in expected().values()}


def test_imagefolder_with_lists_of_images(tmp_path):
  pictures_of(tmp_path / "set", ["0.jpg", "1.jpg"])
  captions = {"en": ["a ball", "a round thing"], "th": ["ลูก"]}
  rows = [
    {"file_names": ["0.jpg"], "captions": captions},
    {"file_names": ["0.jpg", "1.jpg"], "captions": captions},
  ]
  write_metadata(tmp_path / "set/metadata.jsonl", rows)
  report = made(tmp_path, tmp_path / "set", rule=SplitRule("train:1"))
  assert held(report.out) == {"0": captions}
  assert report.problems.counts == {"missing_field": 1, "no_captions": 1}


def test_imagefolder_with_csv_and_jsonl_metadata_is_refused(tmp_path):
  for kind in ("csv", "jsonl"):
    write_metadata(tmp_path / f"metadata.{kind}", [{"file_name": "0.jpg", "en": "a ball"}])
  with pytest.raises(UsageError, match=r"contains metadata.csv and metadata.jsonl: keep one kind"):
    made(tmp_path, tmp_path)


@pytest.mark.parametrize("form", ["labels", "columns", "by language"])
def test_datasets_features_class_label_sequence_and_translation(form, tmp_path):
  """ClassLabel is a number with names in the schema; a Sequence of objects is an object of lists; a Translation."""
  rows = [{"image": {"bytes": jpeg(number), "path": None}} for number in range(2)]
  features = {}
  for number, row in enumerate(rows):
    if form == "labels":
      row |= {"caption": f"ball {number}", "language": 1}
      features = {"language": {"names": ["en", "th"], "_type": "ClassLabel"}}
    elif form == "columns":
      row |= {"captions": {"language": ["en", "th"], "text": [f"ball {number}", f"ลูก {number}"]}}
    else:
      row |= {"translation": {"en": f"ball {number}", "th": f"ลูก {number}"}}
  table = pa.Table.from_pylist(rows)
  about = json.dumps({"info": {"features": features}})
  pq.write_table(
    table.replace_schema_metadata({"huggingface": about}), tmp_path / "train-00000-of-00001.parquet"
  )
  found = sorted(map(str, held(made(tmp_path, tmp_path, rule=SplitRule("folder")).out).values()))
  wanted = [{"en": [f"ball {number}"], "th": [f"ลูก {number}"]} for number in range(2)]
  if form == "labels":
    wanted = [{"th": [f"ball {number}"]} for number in range(2)]
  assert found == list(map(str, wanted))


def test_folder_build_counts_problems(tmp_path, photos):
  (photos / "b").mkdir()
  (photos / "b/00.jpg").write_bytes(jpeg(9))
  (photos / "b/naïve name.jpg").write_bytes(jpeg(10))
  rows = [
    *((name, "en", "a ball") for name in CAPTIONS),
    ("a/01.jpg", "EN", "a ball"),
    ("b/00.jpg", "en", "another of that name"),
    ("b/naïve name.jpg", "en", "a name that is no key"),
    ("a/02.jpg", "klingonese", "ball"),
    ("a/02.jpg", "filp", "bola"),
    ("a/03.jpg", "en", " "),
    ("gone.jpg", "en", "a ball"),
    ("", "en", "a ball"),
    ("a/04.jpg", "en"),
  ]
  (photos / "unused.jpg").write_bytes(jpeg(1))
  report = made(tmp_path, write_table(tmp_path / "bad.csv", ("file", "language", "caption"), rows), photos)
  assert report.problems.counts == {
    "duplicate_line": 1,
    "unknown_language": 2,
    "empty_caption": 1,
    "missing": 1,
    "missing_field": 2,
    "renamed_key": 3,
    "no_captions": 1,
  }
  keys = held(report.out).keys()
  assert {"01", "02", "03", "04", "05"} < keys and len(keys) == 8
  assert "did you mean 'fil'" in str(report.problems.examples["unknown_language"])


def test_files_that_are_no_images_are_ignored(tmp_path, photos):
  for name in ("Thumbs.db", ".DS_Store", "a/desktop.ini", "notes.docx", "raw.xyz"):
    (photos / name).write_bytes(b"no picture")
  assert not made(tmp_path, wide_table(tmp_path), photos).problems.counts


def test_file_names_not_in_utf8_are_counted(tmp_path, photos):
  bad = os.fsdecode(b"\xff")
  entries = ((f"{bad}.jpg", jpeg(1)), (f"{bad}.txt", b"x"), ("1.jpg", jpeg(2)), ("1.txt", b"a ball"))
  tarred(tmp_path / "a.tar", *entries, format=tarfile.GNU_FORMAT, errors="surrogateescape")
  pictures_of(photos / bad, ["x.jpg"])
  table = write_table(
    tmp_path / "table.csv", ("file", "caption"), [("x.jpg", "a ball"), ("a/01.jpg", "a ball")]
  )
  english, all_train = ColumnNames(default_language="en"), SplitRule("train:1")
  of_tar = made(tmp_path, tmp_path / "a.tar", None, english, all_train, out="of_tar")
  of_table = made(tmp_path, table, photos, english, all_train, out="of_table")
  assert held(of_tar.out) == {"1": {"en": ["a ball"]}} and held(of_table.out) == {"01": {"en": ["a ball"]}}
  assert of_tar.problems.counts == {"bad_utf8": 1, "no_captions": 1}
  assert of_table.problems.counts == {"bad_utf8": 1, "no_captions": 6}


def test_failed_folder_build_restarts_with_other_options(tmp_path, photos, monkeypatch):
  def stopped(*_, **__):
    raise KeyboardInterrupt

  many = write_table(tmp_path / "many.csv", ("file", "th"), [(name, "ลูก") for name in CAPTIONS])
  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(build.record_writer, "write_metadata", stopped)
    made(tmp_path, many, photos, shard_pictures=1)
  out = tmp_path / "out"
  assert len(list(out.glob("folder-*-of-?????"))) == 6
  table = wide_table(tmp_path)
  report = made(tmp_path, table, photos, quality=80)
  assert held(report.out) == expected()
  made(tmp_path, table, photos, out="fresh", quality=80)
  assert differing(out, tmp_path / "fresh") == []
  with pytest.raises(UsageError, match="contains folder with quality=80, not 70: remove it"):
    made(tmp_path, table, photos, quality=70)
  with pytest.raises(UsageError, match="contains folder with columns.captions=default, not en=en,fr=fr: "):
    made(tmp_path, table, photos, quality=80, columns=ColumnNames(captions=("en=en", "fr=fr")))


def test_restarted_folder_build_keeps_other_files(tmp_path, photos):
  with pytest.raises(XmcapError, match="none of its lines can be used"):
    made(tmp_path, write_json_lines(tmp_path / "empty.jsonl", [{}]), photos)
  (tmp_path / "out/mine.txt").touch()
  assert held(made(tmp_path, wide_table(tmp_path), photos).out) == expected()
  assert (tmp_path / "out/mine.txt").exists()


def test_image_split_is_stable_when_images_are_added(tmp_path, photos):
  def splits(out):
    return {record.key: split for split in records.splits(out) for record in records.RecordSource(out, split)}

  rows = [(name, "en", "a ball") for name in CAPTIONS]
  header = ("file", "language", "caption")
  few = made(tmp_path, write_table(tmp_path / "few.csv", header, rows[:4]), photos, out="few")
  many = made(tmp_path, write_table(tmp_path / "many.csv", header, rows[::-1]), photos, out="many")
  found, more = splits(few.out), splits(many.out)
  assert set(found.values()) == {"train", "test"}
  assert found == {key: more[key] for key in found}


def test_tfds_reads_a_folder_build(tmp_path, photos):
  """Without a builder class, as docs/own_data.md says."""
  out = made(tmp_path, wide_table(tmp_path), photos).out
  builder = tfds.builder_from_directory(out)
  assert set(builder.info.splits) == {"train", "test"}
  examples = [example for split in builder.info.splits for example in builder.as_data_source(split)]
  found = {example["image/key"].decode(): example for example in examples}
  assert found.keys() == held(out).keys()
  example = found["03"]
  assert example["image"].shape == (16, 24, 3) and example["image"].dtype == np.uint8
  texts = zip(example["captions"]["language"], example["captions"]["text"], strict=True)
  assert {(code.decode(), text.decode()) for code, text in texts} == {
    ("en", "ball 3"), ("th", "ลูก 3"), ("pt-BR", "bola 3"),
  }  # fmt: skip


def test_folder_build_has_no_empty_split(tmp_path, photos):
  report = made(tmp_path, long_table(tmp_path), photos, rule=SplitRule())
  assert {split: counts["records"] for split, counts in report.splits.items()} == {
    "train": 4, "validation": 1, "test": 1,
  }  # fmt: skip


def test_folder_build_refuses_other_options_in_the_same_folder(tmp_path, photos):
  table = long_table(tmp_path)
  assert not made(tmp_path, table, photos).held
  assert made(tmp_path, table, photos).held
  with pytest.raises(UsageError, match="with splits=train"):
    made(tmp_path, table, photos, rule=SplitRule("train:0.8,test:0.2"))


@pytest.mark.parametrize("text", ["train:0.5", "train:x", "train:0.5,train:0.5", "half", "1a:1"])
def test_invalid_splits_option_is_refused(text):
  with pytest.raises(UsageError, match="--splits="):
    SplitRule(text)


def test_data_build_folder_command_with_vocabulary(tmp_path, photos):
  out = tmp_path / "out"
  arguments = [
    *("data", "build", "folder", f"--captions={long_table(tmp_path)}", f"--images={photos}", f"--out={out}"),
    *("--vocabulary=train:500", "--splits=train:0.5,validation:0.2,test:0.3", "--processes=1"),
  ]
  xmcap(*arguments).succeeded("pt-BR (Portuguese (Brazil)) is not one of the 36")
  assert {"vocabulary.model", "languages.txt", "lengths"} < {path.name for path in out.iterdir()}
  lines = files.rows(out / "test/captions.jsonl")
  assert {line["image/key"] for line in lines} == {record.key for record in records.RecordSource(out, "test")}


def test_references_are_without_machine_translations(tmp_path, photos):
  rows = [
    {"file": name, "language": code, "caption": text, "source": "mt" if code == "th" else "human"}
    for name, texts in CAPTIONS.items()
    for code, text in texts.items()
  ]
  table, out = tmp_path / "rows.jsonl", tmp_path / "out"
  table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
  ran = xmcap(
    *("data", "build", "folder", f"--captions={table}", f"--images={photos}", f"--out={out}"),
    *("--splits=test:1", "--processes=1"),
  )
  thai = sum("th" in texts for texts in CAPTIONS.values())
  ran.succeeded(f"note: test/captions.jsonl is without {thai} machine translations")
  lines = files.rows(out / "test/captions.jsonl")
  assert (
    len(lines) == len(CAPTIONS)
    and not any("th" in line for line in lines)
    and any("en" in line for line in lines)
  )
  references = RecordReferences(str(out), "test").references
  total = sum(map(len, CAPTIONS.values()))
  assert references.notes == (f"{thai} of {total} references are machine translations",)
  assert not RecordReferences(str(out), "test", sources=("human",)).references.notes
