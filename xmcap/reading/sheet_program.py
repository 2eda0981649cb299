"""Prints the first sheet of a workbook as lines of JSON, in a process of its own: `sheet_program.py FILE BYTES`.

A sheet is unfolded up to its last cell, so that a small file can ask for any amount of memory; and python-calamine ends
the process that lacks it. The first line is {"sheet", "sheets"}, its name and their number, or {"error"}; then a list
for each row follows. A cell that is a date, a time or a duration is {"date": text}.
"""

import json
import resource
import sys


def main(path: str, most_bytes: int) -> None:
  """Prints the sheet, with at most so many bytes of memory."""
  import python_calamine

  resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
  try:
    book = python_calamine.load_workbook(path)
    sheet = book.get_sheet_by_index(0)
  except (python_calamine.CalamineError, OSError, ValueError) as error:
    print(json.dumps({"error": str(error)}))
    return
  print(json.dumps({"sheet": sheet.name, "sheets": len(book.sheet_names)}))
  before = [""] * (sheet.start[1] if sheet.start else 0)
  for row in sheet.iter_rows():
    print(json.dumps(before + row, default=lambda date: {"date": str(date)}))


if __name__ == "__main__":
  main(sys.argv[1], int(sys.argv[2]))
