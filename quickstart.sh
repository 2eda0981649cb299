#!/usr/bin/env bash
# Installs xmcap into .venv and runs the whole pipeline at a small size: builds a corpus of drawn emoji scenes with captions
# in 36 languages, pretrains a ViT on tags, trains a captioner, and evaluates it on unseen pictures.
# docs/benchmarks.md has the run time on two CPU cores. If you stop the script, run it again to resume.
# usage: bash quickstart.sh [--latest]     (--latest: the newest dependencies instead of those in requirements.lock)
set -euo pipefail
cd "$(dirname "$0")"
. .ci/environment.sh
case "${1:-}" in
  "" | --latest) ;;
  *) echo "usage: bash quickstart.sh [--latest]" >&2; exit 2 ;;
esac
prepare_environment "[train]" "${1:-}"

runs=runs/quickstart
xmcap=$venv/bin/xmcap
common=(--gin_file=models/tiny.gin --gin_file=data/emoji36.gin --gin.DATA_DIR="$runs/data")

# While the models train, this page shows four pictures and what the model says of them; the report of step 4 replaces it.
report=$runs/eval/report.html
watch=(--gin_file=runs/watch.gin --gin.LIVE_PAGE="$report" --gin.LivePage.languages="('en', 'ar', 'hi', 'zh')")

echo "== 1/4 building the corpus emoji36: drawn emoji scenes with captions in 36 languages"
"$xmcap" data build emoji36 --out "$runs/data" --num_train=100000 --difficulty=easy
echo "== 2/4 pretraining the ViT on tags: which emoji are in the picture. Watch it: open $report"
"$xmcap" train "${common[@]}" --gin_file=runs/pretrain_tags.gin --gin.MODEL_DIR="$runs/tags" "${watch[@]}" \
  --gin.WATCHED="@TagNames()" --gin.LOOK_EVERY=500 --gin.LivePage.title="Quickstart, step 2 of 4: learning to see" \
  --gin.LIVE_NOTE="The model names the emoji that it sees, from left to right."
echo "== 3/4 training the captioner from this ViT. Watch it: open $report"
"$xmcap" train "${common[@]}" --gin_file=runs/quickstart.gin --gin.MODEL_DIR="$runs/model" "${watch[@]}" \
  --gin.PRETRAINED="[('$runs/tags', 'vit')]" --gin.LivePage.title="Quickstart, step 3 of 4: learning to write"
echo "== 4/4 captioning 3,600 unseen pictures in 36 languages and scoring the captions"
"$xmcap" eval --model_dir="$runs/model" --gin_file=runs/eval_emoji36.gin \
  --gin.DATA_DIR="$runs/data" --gin.REFERENCES="$runs/data/test/captions.jsonl" --gin.EVAL_DIR="$runs/eval"

pictures=("$runs"/data/test/images/*.png)
echo
echo "Look at the report:   $report"
echo "Caption a picture:    $xmcap caption --model_dir=$runs/model --languages=en,th,ar ${pictures[0]}"
echo "Try it in a browser:  $xmcap serve --model_dir=$runs/model"
