#!/usr/bin/env bash
# Sets up .venv (once), then trains a dual tower in 101 languages on drawn scenes of emoji: builds the corpus emoji100,
# pretrains a ViT on tags, trains pictures and captions into one space, and tests it by zero-shot classification of the
# same emoji as three artists drew them, of emoji that it never saw, and by retrieval.
# docs/benchmarks.md says how long it takes on two CPU cores. Started again, it goes on where it was.
# usage: bash examples/emoji100.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/environment.sh
prepare_environment "[emoji]" ""

runs=runs/emoji100
xmcap=$venv/bin/xmcap
common=(--gin_file=models/tiny.gin --gin_file=data/emoji100.gin --gin.DATA_DIR="$runs/data")
export TF_CPP_MIN_LOG_LEVEL=3

echo "== 1/4 build the corpus emoji100: drawn scenes of emoji, captions in 101 languages"
"$xmcap" data build emoji100 --out "$runs/data" --difficulty=easy --background=mixed --max_size=0.36
echo "== 2/4 pretrain the ViT on tags: which emoji, from left to right"
"$xmcap" train "${common[@]}" --gin_file=runs/pretrain_tags.gin --gin.MODEL_DIR="$runs/tags"
echo "== 3/4 train the dual tower from that ViT"
"$xmcap" train "${common[@]}" --gin_file=runs/contrastive.gin --gin.MODEL_DIR="$runs/model" \
  --gin.PRETRAINED="[('$runs/tags', 'vit')]"
echo "== 4/4 zero-shot classification in 101 languages, and retrieval"
"$xmcap" eval --model_dir="$runs/model" --gin_file=data/emoji100.gin --gin_file=runs/eval_emoji100.gin \
  --gin.DATA_DIR="$runs/data" --gin.LABELS="$runs/data/labels.json" \
  --gin.LABELS_HELD_OUT="$runs/data/labels_held_out.json" --gin.EVAL_DIR="$runs/eval"
