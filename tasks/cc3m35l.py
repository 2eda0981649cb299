"""CC3M-35L: the pictures of Conceptual Captions with captions in 35 languages (Thapliyal et al. 2022).

Mixture `cc3m_35l` and tasks such as `cc3m_35l_th`.
"""

from xmcap.data.registry import register_corpus
from xmcap.languages import TRAINED

CORPUS = register_corpus("cc3m_35l", languages=TRAINED, build_hint="`xmcap data build cc3m35l`")
