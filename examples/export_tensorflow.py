"""Captions photo.jpg by what `xmcap export --to=savedmodel --out=captioner` wrote; needs TensorFlow alone."""

import tensorflow as tf

model = tf.saved_model.load("captioner")
side = int(model.image_size)
image = tf.io.decode_image(tf.io.read_file("photo.jpg"), channels=3, expand_animations=False)
image = tf.cast(tf.round(tf.image.resize(image, [side, side], antialias=True)), tf.uint8)
languages = ["en", "th"]
found = model.caption(image[None], tf.constant(languages))
for language, caption in zip(languages, found["captions"][0].numpy(), strict=True):
  print(language, caption.decode())
