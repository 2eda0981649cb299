"""COCO-35L: MSCOCO's pictures with captions in 35 languages (Thapliyal et al. 2022).

Mixtures `coco_35l` (train and validation) and `coco_35l_dev` (only validation), and tasks such as `coco_35l_th` and
`coco_35l_dev_th`.
"""

from xmcap.data.registry import register_corpus, register_part
from xmcap.languages import TRAINED

CORPUS = register_corpus("coco_35l", languages=TRAINED, build_hint="`xmcap data build coco35l`")
DEV = register_part("coco_35l_dev", CORPUS, splits=("validation",))
