"""A message class with the wire format of tf.train.Example.

TensorFlow's own takes seconds to import, which each process that writes or reads records would pay. Field
numbers are those of tensorflow/core/example/example.proto and feature.proto.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _example_class() -> type:
  field = descriptor_pb2.FieldDescriptorProto
  file = descriptor_pb2.FileDescriptorProto(name="xmcap/example.proto", package="xmcap", syntax="proto3")

  def add(name: str, *fields: tuple[str, int, int, int, str]) -> Any:
    message = file.message_type.add(name=name)
    for field_name, number, kind, label, type_name in fields:
      message.field.add(name=field_name, number=number, type=kind, label=label, type_name=type_name or None)
    return message

  one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
  add("BytesList", ("value", 1, field.TYPE_BYTES, many, ""))
  add("Feature", ("bytes_list", 1, field.TYPE_MESSAGE, one, ".xmcap.BytesList"))
  features = add("Features", ("feature", 1, field.TYPE_MESSAGE, many, ".xmcap.Features.FeatureEntry"))
  entry = features.nested_type.add(name="FeatureEntry")
  entry.options.map_entry = True
  entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=one)
  entry.field.add(name="value", number=2, type=field.TYPE_MESSAGE, label=one, type_name=".xmcap.Feature")
  add("Example", ("features", 1, field.TYPE_MESSAGE, one, ".xmcap.Features"))
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return message_factory.GetMessageClass(pool.FindMessageTypeByName("xmcap.Example"))


Example = _example_class()
"""Has `features.feature[name].bytes_list.value`; lists of floats and integers are not needed."""
