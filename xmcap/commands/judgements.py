"""`xmcap human judgements`: metrics against human judgements of captions."""

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(actions) -> None:
  """Declares the command."""
  command = base.add_command(
    actions, "judgements", _judgements, "correlate metrics with judgements of captions: Flickr8k, Composite, Polaris",
    "Kendall's tau-b and tau-c of each caption's score and rating.",
  )  # fmt: skip
  judgements = (
    "flickr8k.json of CLIPScore's code, Flickr8k's ExpertAnnotations.txt or CrowdFlowerAnnotations.txt, or rows of"
    " mt or cand, refs, and score or human_score, such as Polaris's"
  )
  names = "such as cider_d,rouge_l; pycocoevalcap's BLEU is coco_bleu"
  base.text(command, "--judgements", "FILE", judgements, required=True)
  base.text(command, "--captions", "FILE", "Flickr8k.token.txt, for Flickr8k's own judgements", "")
  base.text(command, "--metrics", "NAMES", names, "cider_d")
  base.text(command, "--tokenizer", "NAME", "tokenizer of the captions", "default")
  base.text(
    command, "--vectors", "DIR", "embeddings for clip_score, similarity and so on (docs/metrics.md)", ""
  )
  base.text(command, "--language", "CODE", "language of the captions", "en")
  base.text(command, "--out", "DIR", "folder for the results as JSON, CSV, Markdown and LaTeX")
  base.add_raw(command)


def _judgements(arguments) -> None:
  from xmcap.human import judgements
  from xmcap.scoring import metrics

  language = languages.get(arguments.language).code
  names = metrics.parse(arguments.metrics)
  wrong = [name for name in names if language not in (metrics.CAPTION_METRICS[name].languages or (language,))]
  if wrong:
    raise UsageError(f"--metrics={wrong[0]}: not for '{language}': leave it out")
  judged = judgements.read(arguments.judgements, arguments.captions)
  findings = judgements.correlate(judged, names, arguments.tokenizer, language, arguments.vectors)
  read = {"--judgements": arguments.judgements, "--captions": arguments.captions}
  if arguments.out:
    outputs.keep_apart({"--out": findings.files(arguments.out)}, read)
  print(findings.terminal(arguments.out or ""))
  if arguments.out:
    with outputs.held(arguments.out, arguments.prog):
      findings.write(arguments.out)
    print(f"\n{arguments.out}: written")
