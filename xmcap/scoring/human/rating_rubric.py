"""What raters are asked, and what each answer means: one table that the rating page and the join share.

`sxs` is the side-by-side comparison of section 3.4 of Thapliyal et al., "Crossmodal-3600" (EMNLP 2022): seven
points, the sides drawn by chance. `thumb` is THumB 1.0 of Kasai et al., "Transparent Human Evaluation for Image
Captioning" (NAACL 2022): precision and recall from 1 to 5, and penalties that are taken off their mean. The
wording is this project's; the scales are the papers'. THumB's published penalties lie between -0.5 and 0.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Criterion:
  """One question about an item.

  Attributes:
    name: the member of the ratings file that holds the answer.
    heading: its name on the page.
    question: what to judge, a sentence or two.
    choices: (value, what it means), in the order of the page; the meaning may be empty.
    first_key: the number key of the first choice; the next choice has the next key.
    default: the value of an item that was rated but for this; None: the rater has to choose.
  """

  name: str
  heading: str
  question: str
  choices: tuple[tuple[float, str], ...]
  first_key: int
  default: float | None = None


@dataclasses.dataclass(frozen=True)
class Protocol:
  """One way of rating: its title, what a rater reads first, advice that stays on screen, the questions."""

  name: str
  title: str
  task: str
  advice: tuple[str, ...]
  criteria: tuple[Criterion, ...]


def _penalty(name: str, heading: str, question: str, *meanings: str) -> Criterion:
  values = (0.0, -0.1, -0.2, -0.3, -0.4, -0.5)
  return Criterion(name, heading, question, tuple(zip(values, meanings, strict=True)), 0, default=0.0)


_SXS = Protocol(
  "sxs",
  "Which caption is better?",
  "You see a picture and two captions of it, written in the same language. Say which one describes the picture "
  "better, and by how much. Which side a caption stands on is chance and means nothing.",
  (
    "Is it true? What a caption says must be in the picture: things, how many, colours, what happens.",
    "Does it say what matters? The main things and events of the picture come before its details.",
    "Is it good language? It should read as a careful native speaker would write it.",
    "Longer is not better in itself. If you cannot tell which you would rather have, choose 4.",
  ),
  (
    Criterion(
      "rating",
      "Your rating",
      "Which caption describes the picture better?",
      (
        (-3, "Left is much better"),
        (-2, "Left is better"),
        (-1, "Left is slightly better"),
        (0, "About the same"),
        (1, "Right is slightly better"),
        (2, "Right is better"),
        (3, "Right is much better"),
      ),
      first_key=1,
    ),
  ),
)

_THUMB = Protocol(
  "thumb",
  "How good is the caption?",
  "You see a picture and one caption of it. Rate how true the caption is (precision) and how much of what matters "
  "it says (recall), each from 1 to 5, and take points off for its language where there is a reason to. The same "
  "picture may come again with another caption: rate each for itself.",
  (
    "Precision looks from the caption to the picture, recall from the picture to the caption. A short caption can "
    "be entirely true and still leave out what matters.",
    "Penalties are for the words, not for the content. Most captions deserve none.",
  ),
  (
    Criterion(
      "P",
      "Precision",
      "Is what the caption says true of the picture? Wrong things, numbers, colours, places or actions count, and "
      "more so where they are central. What it leaves out does not count here.",
      (
        (1, "Has nothing to do with the picture"),
        (2, "Mostly wrong"),
        (3, "A clear error, the gist is right"),
        (4, "A detail is wrong or doubtful"),
        (5, "All of it is true"),
      ),
      first_key=1,
    ),
    Criterion(
      "R",
      "Recall",
      "Does the caption say what matters in the picture? Think of what you would tell somebody who cannot see it: "
      "what stands out, not every detail.",
      (
        (1, "Says nothing of what matters"),
        (2, "Most of it is missing"),
        (3, "Something important is missing"),
        (4, "Something lesser is missing"),
        (5, "All that stands out is said"),
      ),
      first_key=1,
    ),
    _penalty(
      "Fl",
      "Fluency",
      "Grammar, spelling, word choice, whatever the picture shows: 0.1 for a slip that hardly disturbs, 0.5 where "
      "it is broken or hard to understand.",
      "Reads well", "A slip", "", "Disturbs", "", "Broken",
    ),
    _penalty(
      "Con",
      "Conciseness",
      "Words that only repeat: the same thing said twice, or said again in other words.",
      "To the point", "A little", "", "Wordy", "", "Repeats itself",
    ),
    _penalty(
      "Inc",
      "Inclusive language",
      "Claims about people that cannot be seen, such as gender, origin or how they are related; words that demean.",
      "Fine", "Slight", "", "Careless", "", "Offends",
    ),
  ),
)  # fmt: skip

PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (_SXS, _THUMB)}
"""The two protocols, by name."""


def thumb_total(answer: dict[str, float]) -> float:
  """Returns THumB's total of a caption: the mean of P and R, plus its (negative) penalties."""
  return round((answer["P"] + answer["R"]) / 2 + answer["Fl"] + answer["Con"] + answer["Inc"], 6)
