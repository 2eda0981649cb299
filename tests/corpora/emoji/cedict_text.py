"""A small CC-CEDICT for tests."""

import gzip

LINES = """# CC-CEDICT
東西 东西 [dong1 xi5] /thing/stuff/person/CL:個|个[ge4],件[jian4]/
事物 事物 [shi4 wu4] /thing; object/
物 物 [wu4] /thing (literary)/object/matter/
熱狗 热狗 [re4 gou3] /hot dog (loanword)/hot dog/
狗 狗 [gou3] /dog/CL:隻|只[zhi1],條|条[tiao2]/
犬 犬 [quan3] /dog/
熱 热 [re4] /hot/to warm up/
向 向 [xiang4] /towards/to face/
面 面 [mian4] /variant of 麵|面[mian4]/
臉 脸 [lian3] /(anatomical) face/a look/
史 史 [Shi3] /surname Shi/face/
莓 莓 [mei2] /berry/
微笑 微笑 [wei1 xiao4] /smile/
broken line
"""


def write(folder):
  """Writes the dictionary as in the package; returns its path."""
  path = folder / "cedict.txt.gz"
  path.write_bytes(gzip.compress(LINES.encode()))
  return path
