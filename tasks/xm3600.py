"""XM3600: 3,600 pictures with human-written captions in all 36 languages (Thapliyal et al. 2022).

Mixtures `xm3600` and `xm600`, and tasks such as `xm3600_th` and `xm600_th`, with one split, `test`. The paper's 600
pictures were never published: `xm600` is a random sample, the same as that of `xmcap score --subset=xm600:0`, or the
pictures in the file of keys `xm600.subset`.
"""

from xmcap.data.registry import register_corpus, register_part
from xmcap.languages import LANGUAGES

CORPUS = register_corpus(
  "xm3600", languages=tuple(LANGUAGES), splits=("test",), build_hint="`xmcap data build xm3600`"
)
XM600 = register_part("xm600", CORPUS, subset="xm600:0")
