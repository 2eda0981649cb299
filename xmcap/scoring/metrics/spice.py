"""SPICE, computed by the Java program in pycocoevalcap; its parser must be fetched first."""

import json
import pathlib
from typing import Any

import numpy as np

from xmcap.errors import XmcapError
from xmcap.scoring.metrics import base
from xmcap.scoring.tokenizers import java

_JAR = "spice-1.0.jar"
# The program's parser, which pycocoevalcap downloads separately because it is large.
_PARSER = "lib/stanford-corenlp-3.6.0.jar"
_FETCH = "python -m pycocoevalcap.spice.get_stanford_models"


class Spice(base.CaptionMetric):
  """SPICE (Anderson et al., 2016) of English captions: the F1 score of a caption's objects, attributes and relations.

  The score of a corpus is the mean over images, in [0, 1], as in pycocoevalcap's `Spice`.
  """

  name = "spice"
  heading = "SPICE (pycocoevalcap)"
  scaled = True
  languages = ("en",)
  is_extra = True

  @property
  def signature(self) -> str:
    return f"{pathlib.PurePath(_JAR).stem},{java.version()},l=en"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the F1 score of each image; 0 if the program finds nothing to compare.

    Raises as `details`.
    """
    f1 = [of_image["All"]["f"] for of_image in details(corpus)]
    return np.nan_to_num(np.array(f1, np.float64))[:, np.newaxis]


def details(corpus: base.Corpus) -> list[dict[str, dict[str, Any]]]:
  """Returns for each image what the program writes: category (`All`, `Object`, ...) -> `f`, `pr`, `re` and counts.

  Raises XmcapError if Java, pycocoevalcap or its parser is not installed, or if Java fails.
  """
  folder = java.pycocoevalcap("metric 'spice'") / "spice"
  if not (folder / _PARSER).is_file():
    raise XmcapError(f"metric 'spice' needs {folder / _PARSER}; fetch it once: {_FETCH}")
  items = [
    {"image_id": place, "test": " ".join(hypothesis), "refs": [" ".join(words) for words in references]}
    for place, (hypothesis, references) in enumerate(zip(corpus.hypotheses, corpus.references, strict=True))
  ]
  with java.scratch("metric 'spice'") as scratch:
    (scratch / "captions.json").write_text(json.dumps(items), encoding="utf-8")
    # The program's cache of parses is not used: it is machine-dependent and needs an old Java.
    options = [
      "-Xmx8G",
      "-jar",
      str(folder / _JAR),
      "captions.json",
      "-out",
      "scores.json",
      "-subset",
      "-silent",
    ]
    java.run("metric 'spice'", folder / _JAR, options, folder=scratch)
    try:
      written = json.loads((scratch / "scores.json").read_text("utf-8"))
      scores = {image["image_id"]: image["scores"] for image in written}
      for of_image in scores.values():
        np.float64(of_image["All"]["f"] or 0)
      return [scores[place] for place in range(len(items))]
    except (OSError, ValueError, KeyError, TypeError) as error:
      raise XmcapError(
        f"metric 'spice': {_JAR} did not write the scores of {len(items):,} captions; leave out spice"
      ) from error
