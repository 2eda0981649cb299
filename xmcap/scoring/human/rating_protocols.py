"""What raters are asked, and what each answer means: `rating_protocols.json`, which the page and the join share.

`sxs` is the side-by-side comparison of section 3.4 of Thapliyal et al., "Crossmodal-3600" (EMNLP 2022): seven
points, the sides drawn by chance. `thumb` is THumB 1.0 of Kasai et al., "Transparent Human Evaluation for Image
Captioning" (NAACL 2022): precision and recall from 1 to 5, and penalties that are taken off their mean. The
wording is this project's; the scales are the papers'. THumB's published penalties lie between -0.5 and 0.
"""

import importlib.resources
import json
from typing import Any

PROTOCOLS: dict[str, dict[str, Any]] = json.loads(
  importlib.resources.files(__package__).joinpath("rating_protocols.json").read_text(encoding="utf-8")
)
"""Name -> `title`, `task` (what a rater reads first), `advice` (stays on screen), headings of the `captions`, and
`criteria`: for each question the `name` of its member in the ratings file, `heading`, `question`, `choices` (value and
meaning), the number key of the first choice, and the `default` of an item that was rated but for this.
"""
