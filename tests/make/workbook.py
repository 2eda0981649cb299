"""A small Excel workbook."""

import zipfile


def write(path, *rows):
  """Writes the least that Excel takes for a workbook (ECMA-376): strings inline, numbers as numbers."""

  def cell(value):
    kind, tag = ("inlineStr", "is><t") if isinstance(value, str) else ("n", "v")
    return f'<c t="{kind}"><{tag}>{value}</{"t></is" if kind == "inlineStr" else "v"}></c>'

  main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
  office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
  package = "http://schemas.openxmlformats.org/package/2006"
  sheet = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
  members = {
    "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
    "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
    f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="Sheet1" '
    'sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
    f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>',
  }
  with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in members.items():
      archive.writestr(name, content)
  return path
