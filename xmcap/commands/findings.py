"""Prints and writes findings about human ratings."""

from collections.abc import Mapping, Sequence

from xmcap.files import outputs


def show(findings: Sequence, arguments, read: Mapping[str, outputs.Paths]) -> None:
  """Prints findings, and writes them to --out; UsageError if that would overwrite an input."""
  out = arguments.out
  if out:
    outputs.keep_apart({"--out": [file for finding in findings for file in finding.files(out)]}, read)
  print("\n\n".join(finding.terminal(out) for finding in findings))
  if out:
    with outputs.held(out, arguments.prog), outputs.together(out):
      for finding in findings:
        finding.write(out)
    print(f"\n{out}: written")
