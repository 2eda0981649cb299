#!/usr/bin/env bash
# Trains a dual tower in 101 languages on drawn emoji scenes. Installs xmcap into .venv, builds the corpus emoji100, pretrains a
# ViT on tags, trains the dual tower, and evaluates it by retrieval and by zero-shot classification of emoji by three artists
# and of emoji that it never saw. If you stop the script, run it again to resume.
# usage: bash examples/emoji100.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/environment.sh
prepare_environment "[train,emoji]" ""

runs=runs/emoji100
xmcap=$venv/bin/xmcap
common=(--gin_file=models/tiny.gin --gin_file=data/emoji100.gin --gin.DATA_DIR="$runs/data")

echo "== 1/4 building the corpus emoji100: drawn emoji scenes with captions in 101 languages"
"$xmcap" data build emoji100 --out "$runs/data" --difficulty=easy
echo "== 2/4 pretraining the ViT on tags: which emoji are in the picture"
"$xmcap" train "${common[@]}" --gin_file=runs/pretrain_tags.gin --gin.MODEL_DIR="$runs/tags"
echo "== 3/4 training the dual tower from this ViT"
"$xmcap" train "${common[@]}" --gin_file=runs/contrastive.gin --gin.MODEL_DIR="$runs/model" \
  --gin.PRETRAINED="[('$runs/tags', 'vit')]"
echo "== 4/4 evaluating zero-shot classification in 101 languages and retrieval"
"$xmcap" eval --model_dir="$runs/model" --gin_file=data/emoji100.gin --gin_file=runs/eval_emoji100.gin \
  --gin.DATA_DIR="$runs/data" --gin.LABELS="$runs/data/labels.json" \
  --gin.LABELS_HELD_OUT="$runs/data/labels_held_out.json" --gin.EVAL_DIR="$runs/eval"
