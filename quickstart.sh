#!/usr/bin/env bash
# Sets up .venv in this folder (once), then runs the whole of xmcap, small: builds a corpus of drawn scenes of emoji
# with captions in 36 languages, pretrains a ViT on tags, trains a captioner from it, and evaluates that on unseen pictures.
# docs/benchmarks.md says how long it takes on two CPU cores. Started again, it goes on where it was.
# usage: bash quickstart.sh [--latest]     (--latest: the newest dependencies instead of those in requirements.lock)
set -euo pipefail
cd "$(dirname "$0")"
. .ci/environment.sh
case "${1:-}" in
  "" | --latest) ;;
  *) echo "usage: bash quickstart.sh [--latest]" >&2; exit 2 ;;
esac
prepare_environment "" "${1:-}"

runs=runs/quickstart
xmcap=$venv/bin/xmcap
common=(--gin_file=models/tiny.gin --gin_file=data/emoji36.gin --gin.DATA_DIR="$runs/data")
# Hides TensorFlow's start-up messages; it only reads files here.
export TF_CPP_MIN_LOG_LEVEL=3

echo "== 1/4 build the corpus emoji36: drawn scenes of emoji, captions in 36 languages"
"$xmcap" data build emoji36 --out "$runs/data" --num_train=100000 --difficulty=easy --background=mixed --max_size=0.36
echo "== 2/4 pretrain the ViT on tags: which emoji, from left to right"
"$xmcap" train "${common[@]}" --gin_file=runs/pretrain_tags.gin --gin.MODEL_DIR="$runs/tags"
echo "== 3/4 train the captioner from that ViT"
"$xmcap" train "${common[@]}" --gin_file=runs/quickstart.gin --gin.MODEL_DIR="$runs/model" \
  --gin.PRETRAINED="[('$runs/tags', 'vit')]"
echo "== 4/4 caption 3,600 unseen pictures in 36 languages, and score the captions"
"$xmcap" eval --model_dir="$runs/model" --gin_file=runs/eval_emoji36.gin \
  --gin.DATA_DIR="$runs/data" --gin.REFERENCES="$runs/data/test/captions.jsonl" --gin.EVAL_DIR="$runs/eval"

pictures=("$runs"/data/test/images/*.png)
echo "Caption a picture of your own:  $xmcap caption --model_dir=$runs/model --languages=en,th,ar ${pictures[0]}"
