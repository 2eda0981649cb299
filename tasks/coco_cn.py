"""COCO-CN: 20,341 pictures of MSCOCO with Chinese sentences and tags by people, and MSCOCO's English (Li et al. 2019).

Mixture `coco_cn`, and the tasks `coco_cn_zh` and `coco_cn_en`. Chinese captions are of three sources (by people,
translated by people for test, machine-translated); the tasks draw from all of them. English is there if the corpus was
built with `--english`.
"""

from xmcap.data.registry import register_corpus

CORPUS = register_corpus(
  "coco_cn",
  languages=("en", "zh"),
  splits=("train", "val", "test"),
  build_hint="`xmcap data build coco_cn --release=DIR --images=DIR --out DIR`",
)
