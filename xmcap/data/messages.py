"""Protocol buffer messages with the wire format of tf.train.Example.

TensorFlow's own would cost every process that reads or writes records seconds of import. The field numbers are those of
tensorflow/core/example/example.proto and feature.proto, without lists of floats and integers.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

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
