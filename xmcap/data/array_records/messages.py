"""Protocol buffer messages with the wire format of tf.train.Example.

TensorFlow's own would cost every process that reads or writes records seconds of import. The field numbers are those of
tensorflow/core/example/example.proto and feature.proto, without lists of floats and integers.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

T = TypeVar("T")

_EXAMPLE = """
name: "xmcap/example.proto" package: "xmcap" syntax: "proto3"
message_type {
  name: "BytesList" field { name: "value" number: 1 type: TYPE_BYTES label: LABEL_REPEATED }
}
message_type {
  name: "Feature"
  field { name: "bytes_list" number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".xmcap.BytesList" }
}
message_type {
  name: "Features"
  field {
    name: "feature" number: 1 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".xmcap.Features.FeatureEntry"
  }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".xmcap.Feature" }
  }
}
message_type {
  name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".xmcap.Features" }
}
"""


def define(file: str) -> dict[str, type]:
  """Returns message classes by full name, from a FileDescriptorProto in text format."""
  proto = text_format.Parse(file, descriptor_pb2.FileDescriptorProto())
  pool = descriptor_pool.DescriptorPool()
  pool.Add(proto)
  return message_factory.GetMessageClassesForFiles([proto.name], pool)


Example = define(_EXAMPLE)["xmcap.Example"]
"""Has `features.feature[name].bytes_list.value`."""

Features = Mapping[str, Any]
"""Name -> a message with `bytes_list.value`."""


def parser(function: Callable[[Features], T]) -> Callable[[bytes], T]:
  """Makes a function of a record's features one of its bytes, which raises ValueError if they are not a record."""

  @functools.wraps(function)
  def parse(serialized: bytes) -> T:
    try:
      return function(Example.FromString(serialized).features.feature)
    except Exception as error:
      raise ValueError(f"not a record: {error}") from error

  return parse
