"""What programs write where no answer came, and what models say that saw no image or refuse: a table.

`FORMS` are what a program writes, or what its own code takes for no answer; `ANSWERS` are sentences of models. Each
holds where the answer begins, so "a sign that says error 404" has none. Sources of `FORMS`, by writer:

lmms-eval (EvolvingLMMs-Lab): models/simple/{openai,gemini,oryx,wan2_1_t2i}.py, models/chat/{openai,async_openai}.py;
  a fork, TopoBench, asks again for the answers in its _retryable_response.py
VLMEvalKit (open-compass): api/{base,stepai,bluelm_api}.py, inference.py, smp/file.py (INFER_FAIL_MSG), vlm/base.py,
  vlm/omnilmm.py, vlm/thyme/model.py, utils/matching_util.py (reject_to_answer)
inspect-ai (UKGovernmentBEIS): _util/constants.py, model/_providers/{anthropic,google}.py
OpenCompass: models/{gemini,minimax,sensetime,xunfei,zhipuai_v2,unigpt}_api.py, models/claude_allesapin.py
FastChat (lm-sys): constants.py, llm_judge/common.py, serve/api_provider.py; simple-evals (openai): sampler/*.py
HELM (stanford-crfm): clients/{openai,google_genai}_client.py
APIs: openai/openai-python _base_client.py, _exceptions.py; googleapis/python-aiplatform generative_models;
  google-gemini/deprecated-generative-ai-python types/generation_types.py; googleapis/python-genai errors.py
"""

_WHOLE = r"\W*\Z"
_SORRY = (
  "I'm sorry|I am sorry|I'm really sorry|Sorry|I apologize|I apologise|Apologies|Unfortunately|I'm afraid"
)
_PICTURE = r"(?:image|picture|photo|photograph)s?\b"
_ATTACHED = r"(?:been |actually |currently )*(?:provided|attached|uploaded|included)"
_NO_IMAGE = (
  rf"^(?:(?:{_SORRY})\W+(?:but |that )?)?(?:it (?:seems|looks|appears) (?:like |that |as if )?)?(?:there )?(?:"
  rf"(?:(?:is|was|are|were) )?no {_PICTURE} (?:(?:is|was|are|were|has been|have been) )?{_ATTACHED}|"
  rf"(?:the|your|an) {_PICTURE} (?:was|is|has)(?: not|n't) {_ATTACHED}|"
  rf"(?:(?:could|can) you )?(?:please )?(?:provide|upload|attach|share|send)(?: me)?(?: with)? (?:the|an|your) "
  rf"{_PICTURE}|without (?:the|an|any) {_PICTURE}.{{0,60}}?\b(?:provided|cannot|can't|unable))"
)
_STATUS = (
  r"(?:(?-i:[A-Z]+_[A-Z_]+\b|[A-Z]{4,}\. ?\{)|(?:Client|Server) Error: .*for url|Resource has been exhausted|"
  r"An internal error|(?:Too Many Requests|Bad Gateway|Internal Server Error|Service Unavailable|"
  r"Gateway Time-?out)\W*\Z)"
)

FORMS = (
  ("lmms-eval", "[LMMS_EVAL_|[SAFETY_BLOCKED|[GENERATION_FAILED]", ""),
  ("lmms-eval", "Video ", r".{1,300} (?:can not load|generate failed), check the source\Z"),
  ("forks of lmms-eval", f"{_SORRY}|It seems|It looks|It appears|There |No image|No picture|No photo|The image|"
   "The picture|The photo|Your image|Please |Without |Could you |Can you ", _NO_IMAGE),
  ("VLMEvalKit", "Failed to obtain answer|Fail to obtain answer|I'm sorry, but without the image provided", ""),
  ("VLMEvalKit", "Thinking mode too long to extract answer|Image Decode Error|No answer tag found in the final output|"
   "Chat Mode: Failed with all possible conversation turns|I can't process this file|"
   "Sorry, I can't help with images of people yet", _WHOLE),
  ("inspect-ai", "(no content)|Sorry, but I am unable to help with that request", _WHOLE),
  ("inspect-ai", "BLOCKED: ", r"^(?-i:BLOCKED: (?:BlockedReason\.)?[A-Z_]{4,})(?:\n|\Z)"),
  ("OpenCompass", "Due to Google's restrictive policies|The request was rejected because", ""),
  ("OpenCompass", "error:unsafe|error:too long|request blocked by allesapin|all empty response|Sensitive content|"
   "context_length_exceeded", _WHOLE),
  ("FastChat", "$ERROR$|$MODERATION$|**API REQUEST ERROR**|**NETWORK ERROR|**RATE LIMIT OF THIS MODEL", ""),
  ("simple-evals", "No response (bad request)", _WHOLE),
  ("HELM", "Content blocked: |Content blocked by |Prompt blocked by |Prompt blocked with reason", ""),
  ("an API", "Error code: |API Error: |HTTP Error ", r"[45]\d\d\b"),
  ("an API", "Connection error|Request timed out|Overloaded|upstream request timeout", _WHOLE),
  ("an API", "Rate limit reached for |You exceeded your current quota|The server had an error while processing|"
   "Your input image may contain content|Your request was rejected as a result of|Invalid prompt: |"
   "You uploaded an unsupported image|This model's maximum context length is|prompt is too long: |"
   "Could not parse response content as", ""),
  ("an API", "400 |401 |403 |408 |413 |429 |500 |502 |503 |504 |529 ", _STATUS),
  ("an API", "<html>|<!DOCTYPE html>", r"\s*(?:<html[^>]*>)?\s*<head>.*<title>\W*[45]\d\d\b"),
  ("a content filter", "The response was filtered due to the prompt|Output blocked by content filtering|"
   "Input data may contain inappropriate|Output data may contain inappropriate|Green net check rejected|"
   "Sorry, the model cannot answer this question|Content violates safety|Content violates usage|Response blocked by |"
   "Blocked by safety|Blocked by content", ""),
  ("Gemini", "Invalid operation: The `response.|Cannot get the response text|Cannot get the Candidate text|"
   "Response candidate content ", ""),
  ("Python", "Traceback (most recent|HTTPSConnectionPool(|HTTPConnectionPool(|('Connection |<urlopen error|"
   "<class 'openai.|CUDA out of memory|CUDA error: |Expecting value: line |'NoneType' object |[Errno ", ""),
  ("Python", "openai.|litellm.|anthropic.|google.|requests.|httpx.|torch.|Rate|API|Bad|Internal|Authentication|"
   "Permission|Invalid|ContentPolicy|Context|Service|Timeout|Connect|Read|Value|Runtime|Type|Key|Index|Attribute|"
   "JSON|OutOfMemory|Retry|Resource|Deadline|NotFound|Client|Server|Exception",
   r"^(?-i:(?:[a-z_]+\.)*[A-Z][A-Za-z]*(?:Error|Exception|Timeout|Exhausted|Exceeded)|Exception)\s*[(:\[]"),
  ("an error object", '{"error"|{\'error\'|{ "error"|{\n "error"|{\n  "error"|{\n    "error"',
   r"""\s*:\s*["'{](?!\}|["']\s*[,}])"""),
  ("an error object", '{"type": "error"|{"type":"error"|{\'type\': \'error\'|{"object": "error"|{"object":"error"', ""),
  ("a script", "[ERROR|[Error|[FAILED|[Failed|[Blocked|[TIMEOUT|[BLOCKED|[REFUSED|[API|"
   "[NO RESPONSE|[NO_RESPONSE|[EMPTY|[INFERENCE",
   r"(?:[\]:_]|[ -](?:processing|generating|error|failed|failure|response|call|by)\b)"),
  ("a script", "Error: |API error: |OpenAI API error|Gemini API error|API call failed|API request failed|"
   "Request failed|Failed to generate |Failed to get |Failed to process |Failed to call |Failed to caption |ERROR_|"
   "finish_reason", ""),
  ("a script", "Error |An error has occurred|An error occurred",
   r"\W*(?:(?:while |when |during )?(?:processing|generating|calling|captioning)\b|:|\Z)"),
  ("a script", "Error|ERROR|FAILED|Failed|TIMEOUT|N/A|None|NULL|null|NaN|nan|<NA>|<error>|"
   "undefined|[object Object]|Timeout|No response|Empty response|No answer",
   r"^(?-i:Error|ERROR|FAILED|Failed|TIMEOUT|N/A|None|NULL|null|NaN|nan|<NA>|<error>|undefined|"
   r"\[object Object\]|Timeout|(?:No|Empty) response\.?|No answer\.?)\Z"),
)  # fmt: skip
"""Rules for requests that failed: whose they are; beginnings; a regular expression for what follows them, or after `^`
for all from the beginning."""

# How models apologise, and words for an image, in the languages that xmcap knows beside English.
_APOLOGIES = (
  "Es tut mir leid|Tut mir leid|Entschuldigung|Je suis désolé|Désolé|Je m'excuse|Lo siento|Lo lamento|Disculp|Perdón|"
  "Desculp|Sinto muito|Lamento|Mi dispiace|Spiacente|Het spijt me|Sorry, maar|Jag är ledsen|Tyvärr|Förlåt|Beklager|"
  "Jeg er ked af|Jeg beklager|Desværre|Dessverre|Undskyld|Valitettavasti|Anteeksi|Olen pahoillani|Przepraszam|Niestety|"
  "Przykro mi|Omlouvám se|Bohužel|Je mi líto|Žao mi je|Nažalost|Sajnálom|Sajnos|Elnézést|Îmi pare rău|Din păcate|"
  "Извините|К сожалению|Простите|Мне жаль|Вибачте|На жаль|Перепрошую|Λυπάμαι|Συγγνώμη|Δυστυχώς|Üzgünüm|Maalesef|"
  "Özür dilerim|Xin lỗi|Rất tiếc|Tôi xin lỗi|Tôi rất tiếc|Maaf|Mohon maaf|Paumanhin|Pasensya|Samahani|Naomba radhi|"
  "عذر|آسف|أعتذر|أنا آسف|للأسف|معذرة|متأسف|متاسف|ببخشید|מצטער|אני מצטער|סליחה|לצערי|क्षमा|माफ़|मुझे खेद|मुझे माफ़|"
  "দুঃখিত|আমি দুঃখিত|ক্ষমা|క్షమించండి|నన్ను క్షమించండి|ขออภัย|ขอโทษ|申し訳|すみません|ごめんなさい|恐れ入り|죄송합|"
  "죄송하|죄송해|미안합|미안하|抱歉，|抱歉,|抱歉。|抱歉！|很抱歉|非常抱歉|对不起|不好意思"
)
_PICTURES = (
  "image|picture|photo|foto|Bild|imagen|imágen|imagem|immagin|afbeelding|bilde|billed|kuv|obraz|zdjęci|obráz|slik|kép|"
  "imagin|изображени|картин|фото|зображен|εικόν|φωτογραφ|görsel|resim|resm|görüntü|ảnh|hình|gambar|larawan|imahe|picha|"
  "صور|تصویر|عکس|תמונ|छवि|चित्र|तस्वीर|ছবি|চিত্র|చిత్ర|ภาพ|รูป|画像|写真|이미지|사진|그림|图|照片"
)
# The same without an apology: how the answer begins, and what follows.
_BLIND = (
  ("Ich kann |Ich sehe |Ich habe |Es wurde kein Bild", r"(?=.{0,60}\b(?:keine?n?|nicht)\b).{0,60}(?:Bild|Foto)"),
  ("Je ne ", r"(?:peux|vois|suis pas|parviens|reçois).{0,60}(?:image|photo)"),
  ("No puedo |No veo |No tengo acceso|No se ha proporcionado|No has ", r".{0,60}(?:imagen|imágenes|foto)"),
  ("Não consigo |Não posso |Não vejo |Não tenho acesso|Eu não ", r".{0,60}(?:imagem|imagens|foto)"),
  ("Non posso |Non riesco |Non vedo ", r".{0,60}(?:immagin|foto)"),
  ("Я не могу |Я не вижу |Не могу ", r".{0,60}(?:изображени|картин|фото)"),
  ("我无法|我不能|我没法|我看不到|我没有看到", r".{0,10}(?:图|照片)"),
  ("没有提供|未提供|您没有|您未提|您未上|您还没有|请提供|请上传|请您提供|请您上传", r".{0,8}(?:图|照片)"),
  ("画像が|画像を|画像は|写真が|写真を|写真は",
   r".{0,20}(?:見え|見る|確認|提供|添付|アップロード|表示|認識).{0,12}(?:ません|ください)"),
  ("이미지|사진을|사진이",
   r"[를가는]? ?(?:볼 수 없|보이지 않습니|제공되지 않|첨부되지 않|확인할 수 없|(?:제공|업로드|첨부)해 주)"),
)  # fmt: skip
_NOT = r"(?:don't|do not|didn't|did not|can't|cannot|can not|unable to|not able to|couldn't|have no|not have)"
_VERBS = "see|seeing|view|viewing|access|accessing|find|open|display|process|receive|analy[sz]e|interpret"
_ENGLISH = (
  f"{_SORRY}|I can't|I cannot|I can not|I'm unable|I am unable|I'm not able|I am not able|I don't|I do not|I didn't|"
  "As an AI|As a text|As a language|As a large|It looks|It seems|It appears|You haven't|You have not|You didn't|"
  "I'd be happy|I'd be glad|I would be happy|I'm happy to|My apologies|I am a text|I'm a text|I'm just|I am just|"
  "I'm an AI|I am an AI|I'm a language|I am a language"
)
_SEES_NONE = (
  rf"{_NOT}(?: \w+){{0,3}}? (?:{_VERBS})(?: \w+){{0,4}}? {_PICTURE}|you (?:haven't|have not|didn't|did not)"
  rf"(?: \w+){{0,2}}? (?:attach|upload|provid|includ|shar|send|sent)\w*(?: \w+){{0,2}}? {_PICTURE}|{_PICTURE}"
  r"(?: \w+){0,3}? (?:wasn't|didn't|did not|isn't|hasn't|failed to)(?: \w+)?? (?:attach|upload|provid|includ|come|load)"
)
_REFUSES = (
  r"(?:can't|cannot|can not|unable to|not able to|won't|will not)(?: \w+)?? (?:assist|help|comply|fulfil|provide|"
  r"describe|caption|generate|identify|engage|create|answer|continue|support|discuss|respond|recogni[sz]e)"
)
UNSEEN, REFUSAL = "no picture seen", "a refusal"
ANSWERS = (
  *((UNSEEN, begins, follows) for begins, follows in _BLIND),
  (UNSEEN, "There is no image here|There's no image here|There doesn't seem to be an image|No image found|"
   "There does not seem to be an image|There doesn't appear to be an image|Image not found|I need to see the image",
   ""),
  (UNSEEN, _ENGLISH, rf"^(?={_ENGLISH}).{{0,200}}?(?:{_SEES_NONE})"),
  (UNSEEN, _APOLOGIES, f".{{0,120}}(?:{_PICTURES})"),
  (REFUSAL, _ENGLISH, rf"^(?={_ENGLISH}).{{0,200}}?(?:{_REFUSES})"),
  (REFUSAL, _APOLOGIES, r"[^,.]{0,12}[,.\uff0c\u3001\u3002\u060c\u0964]"),
)  # fmt: skip
"""The same for answers of models."""
