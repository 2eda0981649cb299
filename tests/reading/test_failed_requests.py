"""Error messages and refusals of APIs in place of captions (failed requests) are missing predictions."""

import pytest

from tests.make import files
from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.reading import failed_requests, request_forms
from xmcap.scoring import read_predictions, score
from xmcap.scoring.coco import COCOEvalCap

_LMMS_EVAL = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Error code: 500 - {'error': {'message': 'boom 33'}}"
_REFERENCES = {key: {"en": ["a dog runs", "the dog"]} for key in ("1", "2", "3")}


def _rows(*captions):
  return [{"image_id": number, "caption": text} for number, text in enumerate(captions, 1)]


_FAILED = {
  "lmms-eval": [_LMMS_EVAL, "[LMMS_EVAL_BUDGET_EXCEEDED]", "[SAFETY_BLOCKED:finish_reason=3]", "[GENERATION_FAILED] x"],
  "forks of lmms-eval": [
    "No image was provided.", "I\u2019m sorry, but there is no image attached.", "The image was not provided.",
    "Please provide the image so that I can describe it.", "Without an image, I cannot write a caption.",
  ],
  "VLMEvalKit": [
    "Failed to obtain answer via API. ", "Failed to obtain answer BlueLM API. ", "Fail to obtain answer via API.",
    "Failed to obtain answer: <class 'RuntimeError'> CUDA error", "Sorry, I can't help with images of people yet.",
  ],
  "inspect-ai": [
    "(no content)", "Sorry, but I am unable to help with that request.", "BLOCKED: BlockedReason.SAFETY",
  ],
  "OpenCompass": ["Due to Google's restrictive policies, I am unable to respond", "error:unsafe"],
  "FastChat": ["$ERROR$", "**API REQUEST ERROR** Reason: Unknown."],
  "simple-evals": ["No response (bad request)."],
  "an API": [
    "Error code: 429 - {'error': {'message': 'Rate limit reached'}}", "503 UNAVAILABLE. {'error': {'code': 503}}",
    "429 Client Error: Too Many Requests for url: https://host", "<html>\n<head><title>502 Bad Gateway</title></head>",
    "Request timed out.",
  ],
  "a content filter": [
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
  ],
  "Gemini": ["Invalid operation: The `response.text` quick accessor requires the response to contain a valid"],
  "Python": ["openai.RateLimitError: Error code: 429", "Traceback (most recent call last):\n", "ValueError: x"],
  "an error object": ['{"error": {"message": "Overloaded"}}', "{'error': 'timeout'}"],
  "a script": ["[ERROR] Unknown", "[ERROR: Image not found]", "Error processing image: x", "ERROR", "None", "nan"],
}  # fmt: skip


@pytest.mark.parametrize(("writer", "texts"), _FAILED.items())
def test_failed_request_texts_are_recognized_by_writer(writer, texts):
  for text in (*texts, *(f"\n{text}" for text in texts)):
    assert failed_requests.form(text) == writer, text


_ANSWERS = {
  request_forms.UNSEEN: [
    "I'm sorry, but I don't see any image attached to your message.", "As a text-based AI, I can't view images.",
    "I'm unable to view images directly.", "It looks like the image didn't upload.",
    "there is no image here to provide a caption for", "Es tut mir leid, aber ich kann das Bild nicht sehen.",
    "Je ne peux pas voir l'image.", "Lo siento, no puedo ver imágenes.", "Извините, но я не вижу изображения.",
    "抱歉，我无法查看图片。", "申し訳ありませんが、画像を見ることができません。", "이미지를 볼 수 없습니다.",
    "ขออภัย ฉันไม่เห็นรูปภาพ", "عذرًا، لا يمكنني رؤية الصورة.", "क्षमा करें, मैं छवि नहीं देख सकता।",
  ],
  request_forms.REFUSAL: [
    "I'm sorry, I can't assist with that.", "I cannot help with identifying people.",
    "Lo siento, pero no puedo ayudar con eso.", "抱歉，我无法提供帮助。",
  ],
  "": [
    "a sign that says error 404", "Error 404 page on a laptop", "404 Not Found", "Sorry we're closed sign on a door",
    "I'm sorry written on a cake", "There is no image on the screen", "I can see an image of a dog",
    "It looks like a dog is in the image", "500 people in a square", "Server room: rows of racks",
    "BLOCKED: ROAD AHEAD sign", '{"error": null, "caption": "a dog"}', "Ich sehe ein Bild von einem Hund",
    "No hay personas en la imagen", "画像には犬が写っています。", "图片中没有人", "사진에는 개가 있습니다", "none", "",
  ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "texts"), _ANSWERS.items())
def test_refusals_of_models_are_no_failed_requests(kind, texts):
  for text in texts:
    assert (failed_requests.form(text), failed_requests.unseen(text)) == ("", kind), text


def test_failed_request_prefixes_are_at_least_width_long():
  for _, begins, _ in (*request_forms.FORMS, *request_forms.ANSWERS):
    assert all(len(text) >= failed_requests.WIDTH for text in begins.split("|")), begins


@pytest.mark.parametrize("clean", ["", "all"])
@pytest.mark.parametrize("is_read", [True, False])
def test_failed_request_is_a_missing_prediction(tmp_path, clean, is_read):
  captions = {"1": "a dog", "2": _LMMS_EVAL, "3": _LMMS_EVAL}
  predictions = {key: {"en": text} for key, text in captions.items()}
  if is_read:
    predictions = read_predictions(files.jsonl(tmp_path / "p.jsonl", *_rows(*captions.values())), "en")
    assert predictions == {"1": {"en": "a dog"}}
  place = "line 2: " if is_read else ""
  with pytest.raises(
    UsageError, match=rf"^2 of 3 predictions are requests that failed: 2 '\[LMMS.*\(lmms-eval; {place}"
  ):
    score(_REFERENCES, predictions, clean=clean)
  result = score(_REFERENCES, predictions, clean=clean, missing="empty")
  assert {key: texts["en"] for key, texts in result.predictions.items()} == {"1": "a dog", "2": "", "3": ""}
  assert [
    note
    for note in result.table.notes
    if note.startswith("of the missing predictions, 2 requests failed: 2 '")
  ]
  assert [note for note in result.table.notes if note.endswith("(lmms-eval; en 2)")]


def test_failed_and_missing_predictions_are_counted_separately():
  with pytest.raises(
    UsageError, match=r"1 of 3 predictions is a request that failed: .*; 1 of 3 predictions are missing"
  ):
    score(_REFERENCES, {"1": {"en": "a"}, "2": {"en": "$ERROR$"}})


def test_error_text_found_in_references_is_a_caption():
  references = {"1": {"en": ["Error: no disk, on a screen"]}, "2": {"en": ["a dog"]}}
  predictions = {"1": {"en": "Error: no disk"}, "2": {"en": "a dog"}}
  assert score(references, predictions).predictions["1"]["en"] == "Error: no disk"
  with pytest.raises(UsageError, match="1 of 2 predictions is a request that failed"):
    score(references, {**predictions, "2": {"en": "Error: no disk"}})


def test_error_inside_chat_markup_is_missing_after_cleaning():
  predictions = {"1": {"en": "a"}, "2": {"en": '<|im_start|>{"caption": "Error: timeout"}'}, "3": {"en": "b"}}
  with pytest.raises(UsageError, match="1 of 3 predictions is a request that failed: 1 'Error: timeout' "):
    score(_REFERENCES, predictions, clean="all")
  assert score(_REFERENCES, predictions, clean="all", missing="empty").predictions["2"]["en"] == ""


def test_refusals_and_no_image_answers_are_kept_and_noted():
  texts = ["I'm sorry, but I don't see any image.", "I'm sorry, I can't assist with that.", "a dog"]
  predictions = {key: {"en": text} for key, text in zip(_REFERENCES, texts, strict=True)}
  result = score(_REFERENCES, predictions, clean="all")
  assert result.predictions == predictions
  for what in (
    "no picture seen, such as 'I'm sorry, but I don't see",
    "a refusal, such as 'I'm sorry, I can't",
  ):
    assert [note for note in result.table.notes if note.startswith(f"1 of 3 captions: {what}")]
  same = {key: {"en": [text]} for key, text in zip(_REFERENCES, texts, strict=True)}
  assert not [note for note in score(same, predictions).table.notes if "such as" in note]


@pytest.mark.parametrize(
  "row",
  [
    {"image_id": 2, "caption": None},
    {"image_id": 2, "caption": [None]},
    {"image_id": 2, "caption": {"error": {"message": "no"}}},
    {"image_id": 2, "caption": "", "error": "timeout"},
    {"image_id": 2, "error": "timeout"},
    {"doc_id": 2, "filtered_resps": [None], "coco": {"image_id": 2}},
  ],
)
def test_null_or_error_caption_is_a_missing_prediction(tmp_path, row):
  first = (
    {"doc_id": 1, "filtered_resps": ["a"], "coco": {"image_id": 1}} if "doc_id" in row else _rows("a")[0]
  )
  predictions = read_predictions(files.jsonl(tmp_path / "p.jsonl", first, row), "en")
  assert predictions == {"1": {"en": "a"}} and predictions.failed["2"]["en"].place == "line 2"


def test_null_caption_in_json_object_of_ids_is_missing(tmp_path):
  path = files.text(tmp_path / "p.json", '{"1": "a", "2": null, "3": {"error": "x"}}')
  predictions = read_predictions(path, "en")
  assert predictions == {"1": {"en": "a"}} and predictions.failed.keys() == {"2", "3"}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("captions", [(_LMMS_EVAL, "a dog"), ("a dog", _LMMS_EVAL)])
def test_retried_request_in_one_or_two_files_counts_with_its_answer(tmp_path, captions, several):
  rows = [{"image_id": 1, "caption": text} for text in captions]
  parts = [[row] for row in rows] if several else [rows]
  paths = [files.jsonl(tmp_path / f"{number}.jsonl", *part) for number, part in enumerate(parts)]
  predictions = read_predictions(paths, "en")
  assert predictions == {"1": {"en": "a dog"}} and not predictions.failed
  note = "predictions: 1 request asked again after an error; the answer counts"
  assert any(note in text for text in predictions.notes)


def test_human_rating_page_omits_failed_requests(tmp_path):
  path = files.jsonl(tmp_path / "p.jsonl", *_rows("a dog", _LMMS_EVAL))
  options = [f"--predictions=a={path}", "--language=en", f"--out={tmp_path / 'page.html'}"]
  result = xmcap("human", "rate", "--protocol=thumb", *options)
  result.refused("p.jsonl: 1 of 2 predictions is a request that failed: 1 '[LMMS")


def test_coco_eval_cap_refuses_failed_requests():
  class Captions:
    def __init__(self, *captions):
      self.imgToAnns = {number: [{"caption": text}] for number, text in enumerate(captions)}

    def getImgIds(self):
      return list(self.imgToAnns)

  with pytest.raises(
    UsageError, match=r"results: 1 of 2 predictions is a request that failed: .*\(lmms-eval; en 1\)"
  ):
    COCOEvalCap(Captions("a dog", "a cat"), Captions("a dog", _LMMS_EVAL)).evaluate()
