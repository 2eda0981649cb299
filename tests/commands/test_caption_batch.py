"""`xmcap caption --write_batch` and `--read_batch`: OpenAI's batch files instead of requests."""

import json

import pytest

from tests.make import files, images
from tests.make.command import xmcap
from tests.make.endpoint import Endpoint, completion
from xmcap.endpoint import batch

_OUT = "--out=c.jsonl"
_EXPIRED = {
  "code": "batch_expired",
  "message": "This request could not be executed before the window expired.",
}
_FILTERED = {"error": {"message": "Rejected by the safety system.", "code": "content_policy_violation"}}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
  """Three pictures and a copy of one under another key."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.delenv("OPENAI_API_KEY", raising=False)
  files.release("data/captions.jsonl", {f"k{number}": {"en": ["a cat"], "de": ["x"]} for number in range(4)})
  for number in range(4):
    files.write(f"data/images/k{number}.jpg", images.noise((24, 24), number % 3, "JPEG"))
  return tmp_path


def _caption(*more, model="stub"):
  return xmcap("caption", f"--model={model}", "--languages=en,de", "--corpus=data", *more)


def _written(folder):
  return [row for path in sorted(folder.iterdir()) for row in files.rows(path)]


def _output(question, body=None, status=200, error=None):
  """A line of a file of outputs or errors."""
  response = None if body is None else {"status_code": status, "request_id": "r", "body": body}
  return {"id": "batch_req_1", "custom_id": question, "response": response, "error": error}


def test_what_is_written_is_what_would_be_sent(corpus):
  _caption("--write_batch=b", _OUT).succeeded("6 questions in 1 file of b; nothing was sent")
  assert not (corpus / "c.jsonl").exists()
  rows = files.rows(corpus / "b/batch-0001.jsonl")
  assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
  assert len({row["custom_id"] for row in rows}) == len(rows) == 6  # a picture that comes twice is asked once
  with Endpoint().serving() as server:
    _caption(f"--endpoint={server.url}", "--blind", "--out=w.jsonl").succeeded()
    canonical = [json.dumps(body, sort_keys=True) for body in server.requests]
  assert {json.dumps(row["body"], sort_keys=True) for row in rows} == set(canonical)
  journal = {row["id"] for row in files.rows(corpus / "w.answers.jsonl")}
  assert {row["custom_id"] for row in rows} == journal


@pytest.mark.parametrize(("limit", "value"), [("MOST_LINES", 4), ("MOST_BYTES", 5_000)])
def test_files_are_as_large_as_a_provider_takes(corpus, monkeypatch, limit, value):
  _caption("--write_batch=one").succeeded()
  monkeypatch.setattr(batch, limit, value)
  _caption("--write_batch=many").succeeded()
  parts = sorted((corpus / "many").iterdir())
  assert len(parts) > 1
  size = {"MOST_LINES": lambda path: len(files.rows(path)), "MOST_BYTES": lambda path: path.stat().st_size}[
    limit
  ]
  assert all(size(path) <= value for path in parts)
  assert _written(corpus / "many") == _written(corpus / "one")


def test_answers_and_errors_have_states(corpus):
  _caption("--write_batch=b").succeeded()
  ids = [row["custom_id"] for row in _written(corpus / "b")]
  files.jsonl(
    "outputs.jsonl", _output("not-ours", completion("x")), _output(ids[0], completion("**A cat.**")),
    _output(ids[1], completion("Eine", finish="length")), _output(ids[2], _FILTERED, 400),
  )  # fmt: skip
  files.jsonl("errors.jsonl", _output(ids[3], error=_EXPIRED), _output(ids[4], {"half": 1}))
  result = _caption("--read_batch", "outputs.jsonl", "errors.jsonl", _OUT)
  result.refused("6 of 8 captions are missing: --write_batch writes the questions", code=1)
  # k3 is a copy of k0, and one question has no line in the files.
  assert "8 questions: 2 answered, 2 cut, 1 refused, 2 failed, 1 pending; 5 read now" in result.err
  assert "outputs.jsonl: 1 of 4 lines are of other questions, such as 'not-ours'" in result.err
  journal = {row["id"]: (row["state"], row["reason"]) for row in files.rows(corpus / "c.answers.jsonl")}
  assert journal == {
    ids[0]: ("answered", ""),
    ids[1]: ("cut", "finish_reason length"),
    ids[2]: ("refused", "400 (Rejected by the safety system. (content_policy_violation))"),
    ids[3]: ("failed", f"{_EXPIRED['message']} (batch_expired)"),
    ids[4]: ("failed", "the answer is not a chat completion"),
  }
  assert {row["caption"] for row in files.rows(corpus / "c.jsonl")} == {"A cat."}


def test_only_what_has_no_answer_is_written_again(corpus):
  _caption("--write_batch=b").succeeded()
  ids = [row["custom_id"] for row in _written(corpus / "b")]
  files.jsonl("o.jsonl", *(_output(question, completion(f"A cat {question}.")) for question in ids[:4]))
  files.jsonl("e.jsonl", _output(ids[4], error=_EXPIRED), _output(ids[0], error=_EXPIRED))
  assert _caption("--read_batch=o.jsonl", "--read_batch=e.jsonl", _OUT).code == 1
  _caption("--write_batch=again", _OUT).succeeded("2 questions in 1 file of again")
  assert [row["custom_id"] for row in _written(corpus / "again")] == ids[4:]
  files.jsonl("o2.jsonl", *(_output(question, completion("Ein Hund.")) for question in ids))
  _caption("--read_batch=o2.jsonl", _OUT).succeeded("8 questions: 8 answered; 2 read now")
  provenance = json.loads((corpus / "c.provenance.json").read_text(encoding="utf-8"))
  assert provenance["batches"] == ["o2.jsonl"] and provenance["answered_by"] == {"stub-1": 8}
  xmcap("score", "--references=data/captions.jsonl", "--predictions=c.jsonl", "--out=s").succeeded()
  with Endpoint().serving() as server:  # and a server is asked nothing
    _caption(f"--endpoint={server.url}", "--blind", _OUT).succeeded("0 asked now")


def test_null_leaves_a_field_out(corpus):
  body = json.dumps({"max_tokens": None, "max_completion_tokens": 50})
  _caption("--write_batch=b", f"--extra_body={body}").succeeded()
  fields = _written(corpus / "b")[0]["body"]
  assert fields["max_completion_tokens"] == 50 and "max_tokens" not in fields


def test_half_a_character_is_replaced(corpus):
  _caption("--write_batch=b").succeeded()
  answers = (_output(row["custom_id"], completion("A \udc80 cat")) for row in _written(corpus / "b"))
  (corpus / "o.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in answers), encoding="ascii")
  _caption("--read_batch=o.jsonl", _OUT).succeeded()
  assert {row["caption"] for row in files.rows(corpus / "c.jsonl")} == {"A \ufffd cat"}


def test_answers_of_another_model_are_not_taken(corpus):
  _caption("--write_batch=b").succeeded()
  files.jsonl("o.jsonl", *(_output(row["custom_id"], completion("A cat.")) for row in _written(corpus / "b")))
  result = _caption("--read_batch=o.jsonl", _OUT, model="another")
  result.refused("8 of 8 captions are missing", code=1)
  assert "o.jsonl: 6 of 6 lines are of other questions" in result.err


@pytest.mark.parametrize(
  "line",
  [
    '{"image_id": "k0", "caption": "x"}', "text", "[]", '{"custom_id": 3, "response": null}',
    '{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}',
    '{"custom_id": "a", "response": "x"}', '{"custom_id": "a", "result": {"type": "succeeded"}}',
  ],
)  # fmt: skip
def test_other_files_are_refused(corpus, line):
  first = json.dumps(_output("a", completion("x")))
  files.write("o.jsonl", f"{first}\n{line}\n".encode())
  _caption("--read_batch=o.jsonl").refused("o.jsonl, line 2: not an answer of OpenAI's batch interface")


def test_wrong_usage(corpus):
  _caption("--write_batch=b", "--strategy=translate").refused("give --strategy=direct")
  _caption("--write_batch=b", "--read_batch=o.jsonl").refused("do not go together")
  _caption("--write_batch=b").succeeded()
  _caption("--write_batch=b").refused("--write_batch=b: has batch files already: give another folder")
