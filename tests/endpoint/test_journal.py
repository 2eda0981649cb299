import pytest

from tests.make.refusals import refusal
from xmcap.endpoint.answers import Answer, State, Tokens
from xmcap.endpoint.journal import Journal, question_id

_ANSWER = Answer(State.ANSWERED, "قطة\u2028 \udc80", "", "m#1", Tokens(3, 2, 1))


def test_answers_are_read_again(tmp_path):
  journal = Journal(tmp_path / "a.jsonl")
  journal.append("q1", "k", "ar", _ANSWER)
  journal.append("q2", "k", "de", Answer(State.FAILED, reason="503"))
  journal.append("q2", "k", "de", Answer(State.CUT, text="x" * 10_000))
  journal.close()
  again = Journal(tmp_path / "a.jsonl")
  assert again.states == {"q1": State.ANSWERED, "q2": State.CUT}
  assert again.answer("q1") == _ANSWER
  assert again.answer("q2").text == "x" * 10_000


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_torn_last_line_is_removed(tmp_path, cut):
  path = tmp_path / "a.jsonl"
  journal = Journal(path)
  journal.append("q1", "k", "ar", _ANSWER)
  journal.append("q2", "k", "ar", _ANSWER)
  journal.close()
  path.write_bytes(path.read_bytes()[:-cut])
  again = Journal(path)
  assert list(again.states) == ["q1"]
  again.append("q3", "k", "ar", _ANSWER)
  assert again.answer("q3") == _ANSWER
  assert list(Journal(path).states) == ["q1", "q3"]


@pytest.mark.parametrize(
  "line", ['{"image/key": "a", "caption": "b"}', "text", "[]", '{"id": "a", "state": "lost"}']
)
def test_other_files_are_refused(tmp_path, line):
  path = tmp_path / "a.jsonl"
  path.write_text(f"{line}\n", encoding="utf-8")
  assert refusal(Journal, path) == (f"{path}, line 1: not an answer of an endpoint: move the file away")
  assert path.read_text(encoding="utf-8") == f"{line}\n"


def test_id_does_not_hang_on_the_order_of_fields():
  assert question_id({"a": 1, "b": {"c": 2, "d": 3}}) == question_id({"b": {"d": 3, "c": 2}, "a": 1})
  assert question_id({"a": 1}) != question_id({"a": 2})
