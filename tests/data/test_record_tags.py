"""Tags by language and captions translated by people; records of before, which lack the columns, stay readable."""

import base64
import io

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image
from tensorflow_datasets.core import features as of

from xmcap.data import record_writer, records
from xmcap.data.columns import parse_columns
from xmcap.data.corpora import tfds_builders
from xmcap.data.records import Caption, Record, RecordSource
from xmcap.errors import XmcapError

# Written by the version before tags by language.
OLD_BYTES = base64.b64decode(
  "Cq0CCh8KEWNhcHRpb25zL2xhbmd1YWdlEgoKCAoCZW4KAnRoCiAKD2NhcHRpb25zL3NvdXJjZRINCgsKBWh1bWFuCgJtdAovChdjYXB0aW9ucy90"
  "ZXh0X3Rva2VuaXplZBIUChIKBWEgZG9nCgnguKvguKHguLIKJQoNY2FwdGlvbnMvdGV4dBIUChIKBWEgZG9nCgnguKvguKHguLIKFQoJaW1hZ2Uv"
  "a2V5EggKBgoEMDBhMQoWCgxpbWFnZS9sb2NhbGUSBgoECgJlbgpQCgVpbWFnZRJHCkUKQ4lQTkcNChoKAAAADUlIRFIAAAABAAAAAQgAAAAAOn6b"
  "VQAAAApJREFUeJxjYAAAAAIAAUivpHEAAAAASUVORK5CYIIKDwoEdGFncxIHCgUKA2RvZw=="
)
OLD_CAPTIONS = [Caption("en", "a dog", "a dog"), Caption("th", "หมา", "หมา", "mt")]


def png() -> bytes:
  data = io.BytesIO()
  Image.new("RGB", (9, 8)).save(data, "PNG")
  return data.getvalue()


def tagged() -> Record:
  captions = [Caption("zh", "一只狗", "一 只 狗", "translated"), Caption("en", "a dog")]
  return Record(
    "COCO_train2014_000000000001", png(), captions, tags_by_language={"zh": ["狗", "草地"], "en": ["dog"]}
  )


def write(folder, serialized: bytes, feature_dict) -> None:
  """A corpus of one record with these bytes, and the metadata of these features."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(record_writer, "serialize", lambda record: serialized)
    split = record_writer.write_split(folder, "train", [0], lambda _: [tagged()], dataset="toy", processes=1)
  record_writer.write_metadata(folder, [split], dataset="toy")
  feature_dict.save_config(folder)


def old_features():
  caption = {field: of.Text() for field in ("language", "text", "text_tokenized", "source")}
  return of.FeaturesDict(
    {
      "image/key": of.Text(),
      "image/locale": of.Text(),
      "image": of.Image(shape=(None, None, 3)),
      "captions": of.Sequence(caption),
      "tags": of.Sequence(of.Text()),
    }
  )


def test_tags_and_their_languages_come_back():
  assert records.parse(records.serialize(tagged())) == tagged()


def test_the_bytes_are_those_of_tfds(tmp_path):
  serialized = tfds_builders.features().serialize_example(
    tfds_builders.features().encode_example(tfds_builders.as_example(tagged()))
  )
  assert records.parse(serialized) == tagged()


def test_tfds_reads_the_tags(tmp_path):
  write(tmp_path, records.serialize(tagged()), tfds_builders.features())
  (example,) = tfds.builder_from_directory(tmp_path).as_data_source(split="train")
  assert [tag.decode() for tag in example["tags_by_language"]["tag"]] == ["狗", "草地", "dog"]
  assert [code.decode() for code in example["tags_by_language"]["language"]] == ["zh", "zh", "en"]


def test_a_record_of_before_has_no_tags_by_language():
  record = records.parse(OLD_BYTES)
  assert (record.key, record.tags, record.tags_by_language) == ("00a1", ["dog"], {})
  assert record.captions == OLD_CAPTIONS
  assert parse_columns(OLD_BYTES).key == "00a1"


def test_a_corpus_of_before_is_read_here_and_by_tfds(tmp_path):
  write(tmp_path, OLD_BYTES, old_features())
  assert [record.captions for record in RecordSource(tmp_path)] == [OLD_CAPTIONS]
  (example,) = tfds.builder_from_directory(tmp_path).as_data_source(split="train")
  np.testing.assert_array_equal(example["tags"], [b"dog"])
  assert "tags_by_language" not in example


@pytest.mark.parametrize(
  ("tags", "message"),
  [
    ({"xx-unknown-language": ["a"]}, "tags in the unknown language 'xx-unknown-language'"),
    ({"zh": ["狗", " "]}, "tag ' ' is empty"),
    ({"zh": ["a\nb"]}, "contains a line break"),
  ],
)
def test_tags_are_checked(tags, message):
  with pytest.raises(XmcapError, match=message):
    records.check(Record("k", png(), [], tags_by_language=tags))


def test_an_unknown_source_is_refused():
  with pytest.raises(XmcapError, match="source 'guessed' is not one of human, mt, translated"):
    records.check(Record("k", png(), [Caption("en", "a", source="guessed")]))
