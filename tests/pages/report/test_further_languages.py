"""A report of languages beyond the 36 of XM3600."""

from xmcap.pages import output
from xmcap.scoring.score import score


def test_report_of_languages_beyond_the_36(tmp_path):
  references = {
    key: {"pt-BR": [f"uma bola {key}"], "is": [f"bolti {key}"], "en": [f"a ball {key}"]}
    for key in ("one", "two")
  }
  predictions = {key: {code: texts[0] for code, texts in by.items()} for key, by in references.items()}
  result = score(references, predictions, health=True)
  output.write(result, tmp_path)
  assert "Portuguese (Brazil)" in (tmp_path / "report.html").read_text("utf-8")
  (note,) = (note for note in result.table.notes if "36 languages" in note)
  assert note.startswith("is (Icelandic), pt-BR (Portuguese (Brazil)) are not among the 36 languages")
