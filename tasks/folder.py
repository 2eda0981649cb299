"""Own pictures, as `xmcap data build folder` made them: mixture `folder`, and tasks such as `folder_th`.

They are made for the languages of the corpus at `folder.data_dir`. `xmcap.data.tasks.register_built` registers a corpus
under another name, without gin.
"""

from xmcap.data.tasks import register_own

CORPUS = register_own("folder", build_hint="`xmcap data build folder`")
