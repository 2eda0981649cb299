r"""Residue that is known by its form in a single caption, and its removal.

A caption has a kind of residue if, and only if, removing that kind changes it. So what is measured is what `--clean`
removes, and a caption without residue keeps its bytes.

Tokens are known by their form, since every model has its own. The forms are those of Qwen-VL, InternVL, LLaVA, Gemma,
PaliGemma, Florence-2, Kosmos-2, Molmo, SmolVLM, Idefics, CogVLM, GLM-4.1V, DeepSeek-VL, Kimi-VL, Pixtral and gpt-oss.
Human captions such as "I <3 you", "# 8 of Iowa State" and "1. FC K\u00f6ln" have none of these forms.
"""

import bisect
import dataclasses
import functools
import re
from collections.abc import Callable, Sequence

import numpy as np

from xmcap.reading import literals
from xmcap.scoring.residue import characters, mojibake
from xmcap.scoring.residue.pairs import Kind, Pairs

LINE_ENDS = ("\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029")
"""Characters that end a line."""

_LINE_END = re.compile(f"[{''.join(LINE_ENDS)}]")
_MULTILINE = re.MULTILINE
_DOTALL = re.DOTALL | re.IGNORECASE

# Reasoning: the tags of DeepSeek-R1 and Qwen3, Kimi's, Magistral's, and the analysis channel of gpt-oss.
_REASONING = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad|seed:think)"
_OPEN = re.compile(rf"<{_REASONING}>|\u25c1think\u25b7|\[THINK\]", _DOTALL)
_CLOSE = re.compile(rf"</{_REASONING}>|\u25c1/think\u25b7|\[/THINK\]", _DOTALL)
_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary)\s*<\|message\|>.*?(?:<\|end\|>|\Z)", _DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", _DOTALL)
_ANSWER_END = re.compile("</answer>", _DOTALL)
_ANY_REASONING = re.compile(rf"{_OPEN.pattern}|{_CLOSE.pattern}|<\|channel\|>|<answer>", _DOTALL)

# Places: <loc0012>, <seg001>, <loc_123>, <patch_index_0044>; boxes of coordinates; tags around what is placed.
_COORDINATES = r"[\s\d.,;()\[\]]*"
_PLACED = r"(?:box|bbox|quad|poly|polygon|point|points|ref|object_ref|object|phrase|grounding|det)"
_PLACE_TOKEN = (
  r"<(?!h[1-6]>|(?:image|img|frame|video|audio|unused|extra_id|reserved|mask)_?\d)[A-Za-z_]{1,20}\d{1,4}>"
)
_PLACE_MARK = rf"<\|/?{_PLACED}(?:_start|_end)?\|>"
_PLACES = re.compile(
  rf"<(\|?)({_PLACED})(?:_start)?\1>{_COORDINATES}<\1/?\2(?:_end)?\1>|{_PLACE_TOKEN}|"
  rf"</?{_PLACED}(?:\s[^<>]*)?/?>|{_PLACE_MARK}|"
  r"\[{1,2}\s*\d+(?:\.\d+)?(?:\s*,\s*\d+(?:\.\d+)?){3}\s*\]{1,2}"
)

# Special tokens: <|im_end|>, <start_of_turn>, </s>, [INST], <0x0A>.
_BARE = (
  r"(?i:s|bos|eos|pad|unk|mask|cls|sep|bot|eot|eom|eod|eop|sop|gmask|image|img|frame|video|audio|vision|sys)"
)
_TOKENS = re.compile(
  rf"(?!{_PLACE_TOKEN}|{_PLACE_MARK})(?:"
  r"<[|\uff5c][^|\uff5c<>\n]{1,60}[|\uff5c]?>|<[\w\u2581 /]{1,60}[|\uff5c]>|"
  rf"<{{1,2}}/?{_BARE}(?:_?\d+)?>{{1,2}}|</?[A-Za-z]+(?:_[A-Za-z0-9]+)+>|<unused\d+>|(?:<0x[0-9A-Fa-f]{{2}}>)+|"
  r"\[/?(?:INST|CLS|SEP|PAD|UNK|MASK|BOS|EOS|IMG|gMASK|[A-Z]+_[A-Z_]+)\])"
)
_TURN = r"(?:<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<\|start\|>|<\|turn>)[ \t]*"
_ROLE_END = r"[ \t]*(?:<\|end_header_id\|>|(?=<\|)|\n|\Z)"
_ASSISTANT = re.compile(rf"{_TURN}(?:assistant|model){_ROLE_END}|<\|assistant\|>")
# A prompt that is repeated before the answer, or a turn that the model invents after it.
_OTHER_TURN = Pairs(
  Kind(rf"{_TURN}(?:user|system){_ROLE_END}|<\|(?:user|system)\|>", rf"(?={_TURN}|<\|assistant\|>)|\Z"),
  Kind("<<SYS>>", "<</SYS>>"),
  Kind(r"\[INST\]", r"\[/INST\]"),
  flags=re.DOTALL,
)
_CHANNEL_NAME = re.compile(r"<\|channel\|>\s*final\s*(?=<\|message\|>)")
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+", re.IGNORECASE)

_NAME = r"[A-Za-z][A-Za-z0-9:-]*"
_TAGS = re.compile(
  rf"<!--.{{0,1000}}?-->|</?{_NAME}(?:\s+[\w:-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>]+))?)*\s*/?>",
  re.DOTALL,
)
_BREAKING = re.compile(r"</?(?:br|p|div|li|ul|ol|tr|h[1-6])\b[^<>]*>", re.IGNORECASE)

_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}?", re.DOTALL)
_COMMAND = re.compile(r"\\(?:text\w*|math\w+|emph|underline)\s*\{([^{}]*)\}")
_FORMULA = re.compile(r"\\[()\[\]]|\$\$")


def _around(mark: str) -> Kind:
  """Returns the kind of a mark that touches what is between on both sides."""
  return Kind(rf"{mark}(?=\S)", rf"(?<=\S){mark}", 1)


_FENCE = re.compile(r"```(?:[\w+-]*[ \t]*\n)?")
_MARKDOWN = (
  (re.compile(r"!?\[([^\[\]\n]+)\]\([^()\s]+\)"), r"\1"),
  (re.compile(r"^[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$", _MULTILINE), ""),
  (Pairs(_around(r"\*{3}"), _around(r"\*{2}")), r"\1"),
  (re.compile(r"^\*\*(?=\S)|(?<=\S)\*\*$"), ""),  # of a pair that was cut
  (Pairs(Kind(r"(?<!\w)__(?=\S)", r"(?<=\S)__(?!\w)", 1)), r"\1"),
  (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]*?[^\s*])\*(?![\w*])"), r"\1"),
  (re.compile(r"(?<!\w)_(?=\w)([^_\n]*[^\W_])_(?!\w)"), r"\1"),
  (Pairs(_around("~~")), r"\1"),
  (re.compile(r"(?<!`)`([^`\n]+)`(?!`)"), r"\1"),
  (re.compile(r"^[ \t]*#{1,6}[ \t]+(?=\D)", _MULTILINE), ""),
  (re.compile(r"^[ \t]*>[ \t]+(?=\S)", _MULTILINE), ""),
  (re.compile(r"^[ \t]*[-*+\u2022\u2023\u25e6\u25aa][ \t]+(?=\S)", _MULTILINE), ""),
)
_ITEM = re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+(?=\S)", _MULTILINE)
_ANY_MARKDOWN = re.compile(
  "|".join(["```", *(f"(?:{p.pattern})".replace(r"\1", r"[-*_]+") for p, _ in _MARKDOWN)]), _MULTILINE
)

# The member of an object that is the caption; otherwise its first string.
_CAPTIONS = ("caption", "description", "answer", "text", "response", "output", "content", "label")
_JSON = re.compile(r"""(?:\A|(?<=[\s:`]))(?:\{\s*["']|\[\s*["'{])""")
_CUT_JSON = re.compile(r"""[\[{\s]*"\w+"\s*:[\[\s]*"((?:[^"\\]|\\.)*)\\?\Z""", re.DOTALL)
_LONGEST_JSON = 100_000


class Joined:
  """Captions as one text, in which marks are found much faster than caption by caption."""

  def __init__(self, captions: Sequence[str]):
    self._text = "\0".join(captions)
    self._captions = captions
    self.characters = frozenset(map(chr, np.flatnonzero(np.bincount(self._code_points)).tolist()))

  def rows(
    self, marks: Sequence[str | re.Pattern[str]], encodings: Sequence[mojibake.Encoding] = ()
  ) -> list[int]:
    """Returns the rows of captions that have one of the marks, or that may be UTF-8 read in one of the encodings."""
    row_numbers: set[int] = set()
    if encodings:
      rows, read_in = self._sequences
      row_numbers.update(rows[(read_in & mojibake.bits(encodings)) > 0].tolist())
    for mark in marks:
      if isinstance(mark, re.Pattern):
        row_numbers |= {bisect.bisect_right(self._ends, match.start()) for match in mark.finditer(self._text)}
        continue
      place = self._text.find(mark) if self.characters.issuperset(mark) else -1
      while place >= 0:
        row = bisect.bisect_right(self._ends, place)
        row_numbers.add(row)
        place = self._text.find(mark, self._ends[row])
    return sorted(row_numbers)

  @property
  def _code_points(self) -> np.ndarray:
    """uint32 [characters]; not kept, since those of all languages would be larger than their captions."""
    return np.frombuffer(self._text.encode("utf-32-le", "surrogatepass"), np.uint32)

  @functools.cached_property
  def _sequences(self) -> tuple[np.ndarray, np.ndarray]:
    if not mojibake.may_have_sequences(self.characters):
      return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    return mojibake.sequences(self._code_points, self._ends)

  @functools.cached_property
  def _ends(self) -> np.ndarray:
    """int64 [captions], where the next one begins."""
    between = np.flatnonzero(self._code_points == 0)
    if len(between) + 1 == len(self._captions):
      return np.append(between, len(self._text)) + 1
    return np.cumsum([len(caption) + 1 for caption in self._captions])


@dataclasses.dataclass(frozen=True)
class Form:
  """A kind of residue.

  Attributes:
    noun: what a caption has, for messages.
    marks: a caption that has none of these has no residue of this kind.
    pattern: finds an example.
    remove: returns a caption without residue of this kind.
    encodings: in which UTF-8 may have been read; then a caption may have residue without a mark.
  """

  noun: str
  marks: tuple[str | re.Pattern[str], ...]
  pattern: re.Pattern[str]
  remove: Callable[[str], str]
  encodings: tuple[mojibake.Encoding, ...] = ()

  def example(self, caption: str) -> str:
    """Returns the first residue in a caption."""
    match = self.pattern.search(caption)
    return match.group().strip() if match else caption


def _without_reasoning(caption: str) -> str:
  caption = _CHANNEL.sub(" ", caption)
  # The opening tag may be in the prompt, and the closing one beyond the limit of tokens.
  after = _CLOSE.split(caption)[-1]
  caption = _OPEN.split(after if after.strip() else caption, maxsplit=1)[0]
  answers = _ANSWER.findall(caption)
  return answers[-1] if answers else _ANSWER_END.sub(" ", caption)


def _without_places(caption: str) -> str:
  return _PLACES.sub(" ", caption)


def _without_tokens(caption: str) -> str:
  caption = _OTHER_TURN.sub(" ", _BYTES.sub(_decode, caption))
  turns = [turn for turn in _ASSISTANT.split(caption) if _TOKENS.sub("", turn).strip()]
  caption = _CHANNEL_NAME.sub(" ", turns[0] if turns else "")
  return _TOKENS.sub(" ", caption)


def _decode(match: re.Match[str]) -> str:
  return bytes.fromhex(re.sub("<0x|>", "", match.group(), flags=re.IGNORECASE)).decode("utf-8", "replace")


def _without_html(caption: str) -> str:
  return _TAGS.sub("", _BREAKING.sub("\n", caption))


def _without_latex(caption: str) -> str:
  for _ in range(5):  # nested commands
    caption, count = _COMMAND.subn(r"\1", caption)
    if not count:
      break
  boxes = _BOXED.findall(caption)
  return _FORMULA.sub("", boxes[-1].strip() if boxes else caption)


def _without_markdown(caption: str) -> str:
  if not any(map(str.isalnum, caption)):
    return caption
  caption = _FENCE.sub("", caption)
  for pattern, kept in _MARKDOWN:
    caption = pattern.sub(kept, caption)
  if len(_ITEM.findall(caption)) > 1:
    caption = _ITEM.sub("", caption)
  return caption


def _without_json(caption: str) -> str:
  start = _JSON.search(caption)
  if not start or len(caption) > _LONGEST_JSON:
    return caption
  text = caption[start.start() :].strip().removesuffix("```").strip()
  try:
    unwrapped = _caption_in(literals.parse(text))
  except ValueError:
    unwrapped = None
  if unwrapped is None and (cut := _CUT_JSON.match(text)):
    unwrapped = cut.group(1)
  # What broke inside the JSON waited until it was read.
  return caption if unwrapped is None else characters.without_entities(characters.without_escapes(unwrapped))


def _caption_in(value: object) -> str | None:
  if isinstance(value, str):
    return value
  if isinstance(value, dict):
    named = [value[name] for name in _CAPTIONS if name in value]
    value = [*named, *value.values()]
  if isinstance(value, list):
    return next((caption for caption in map(_caption_in, value) if caption is not None), None)
  return None


def _without_lines(caption: str) -> str:
  lines = [line.strip() for line in _LINE_END.split(caption) if any(map(str.isalnum, line))]
  if len(lines) < 2:
    return caption
  # A line that ends in a colon introduces the next.
  return next((line for line in lines if line[-1] not in ":\uff1a"), lines[-1])


def _tidy(remove: Callable[[str], str]) -> Callable[[str], str]:
  """Makes a removal leave no spaces where the residue was, and a caption without residue as it is."""

  def tidied(caption: str) -> str:
    rest = remove(caption)
    return caption if rest == caption else re.sub(r"[ \t]{2,}", " ", rest).strip()

  return tidied


FORMS: dict[str, Form] = {
  "subwords": Form(
    "marks of subwords", ("\u2581", "\u0120", "\uffed", "@@", "##", "</w>", "@-@", "@,@", "@.@"),
    characters.SUBWORD, _tidy(characters.without_subwords), (mojibake.BYTE_LEVEL,),
  ),
  "escapes": Form(
    "escapes", ("\\", "%", "=", "<", "_x", "b'", 'b"', characters.BARE), characters.ESCAPE,
    _tidy(characters.without_escapes),
  ),
  "entities": Form("entities of HTML", ("&",), characters.ENTITY, _tidy(characters.without_entities)),
  "mojibake": Form(
    "UTF-8 read in another encoding (mojibake)", ("Ã",), re.compile(r"\S{0,20}[^\x00-\x7f]\S{0,20}"),
    _tidy(mojibake.repaired), mojibake.ENCODINGS,
  ),
  "invisible": Form(
    "invisible characters", characters.UNSEEN, characters.INVISIBLE, _tidy(characters.without_invisible),
  ),
  "think": Form("a block of reasoning", ("<", "\u25c1", "THINK]"), _ANY_REASONING, _tidy(_without_reasoning)),
  "tokens": Form("special tokens", ("<", "["), _TOKENS, _tidy(_without_tokens)),
  "json": Form("JSON around them", ("{", "["), re.compile(r"\A.{1,40}", re.DOTALL), _tidy(_without_json)),
  "loc": Form("tokens or coordinates of places", ("<", "["), _PLACES, _tidy(_without_places)),
  "html": Form("HTML", ("<",), _TAGS, _tidy(_without_html)),
  "latex": Form("LaTeX", ("\\", "$$"), re.compile(r"\\\w*\s*[{()\[\]]?|\$\$"), _tidy(_without_latex)),
  "markdown": Form(
    "Markdown", ("*", "_", "~~", "`", "](", "#", ">", "- ", "+ ", "---", *"\u2022\u2023\u25e6\u25aa", "1.", "1)"),
    _ANY_MARKDOWN, _tidy(_without_markdown),
  ),
  "lines": Form("several lines", LINE_ENDS, re.compile(r"\A.*"), _tidy(_without_lines)),
}  # fmt: skip
"""Kinds by name, in the order in which they are removed."""
