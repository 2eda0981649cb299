"""The user's own pictures, from `xmcap data build folder`: mixture `folder`, and tasks such as `folder_th`.

The languages are those of the corpus at `folder.data_dir`. `xmcap.data.registry.register_built` registers a corpus
under another name, without gin.
"""

from xmcap.data.registry import register_own

CORPUS = register_own("folder", build_hint="`xmcap data build folder`")
