"""Folders of labels, as `xmcap data tags` writes them."""

import json


def write(folder, language, names, **splits) -> str:
  """`splits`: name -> {image key: tags}."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / "labels.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
  for split, pictures in splits.items():
    lines = [
      json.dumps({"image/key": key, "language": language, "tags": tags}) for key, tags in pictures.items()
    ]
    (folder / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
  return str(folder)
