#!/usr/bin/env bash
# Repeats the experiments of the COCO-CN paper in Chinese on drawn emoji scenes: tagging, captioning, and retrieval across
# languages. Installs xmcap into .venv, builds the corpus emoji_tags, pretrains a ViT on tags, trains every system and
# baseline with each seed, and compares them on unseen pictures. If you stop the script, run it again to resume.
# usage: bash examples/coco_cn.sh [SEED ...]     (default: 0 1 2)
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/environment.sh
prepare_environment "[train,emoji,words]" ""

runs=runs/coco_cn
xmcap=$venv/bin/xmcap
data=(--gin_file=data/emoji_tags.gin --gin.DATA_DIR="$runs/data")
vit="[('$runs/tags', 'vit')]"
# Without TensorBoard's files: metrics.jsonl has the figures.
train() { "$xmcap" train --gin.Writers.tensorboard=False "$@"; }
export JAX_COMPILATION_CACHE_DIR="$PWD/$runs/compiled"

# tagger NAME RUN [OPTION ...]: trains a network on stored features, and predicts the tags of the test pictures.
tagger() {
  local name=$1 run=$2
  local options=("${data[@]}" --gin_file="runs/tag_$run.gin" --gin_file=models/features.gin \
    --gin.FEATURES="$runs/features.safetensors" --gin.VALIDATION=val "${@:3}")
  train "${options[@]}" --gin.MODEL_DIR="$out/tag_$name" --gin.train.seed="$seed" --gin.TOTAL_STEPS=1000 \
    --gin.BATCH_SIZE=64 --gin.LEARNING_RATE=4e-4 --gin.hooks.eval_every=250 --gin.CheckpointPolicy.every=250
  "$xmcap" eval "${options[@]}" --model_dir="$out/tag_$name" --gin.EVAL_DIR="$out/tags/$name"
}

zh="'zh': '$runs/data/labels/zh'" en="'en': '$runs/data/labels/en'"

# The taggers of Chinese alone: mt learns from the words of machine-translated captions, mono from people's tags.
tagging_in_one_language() {
  tagger mt mono --gin.LABELS="{'zh': '$runs/labels_mt'}" --gin.LabelStream.split="'train_mt'" \
    --gin.validation/LabelStream.labels="{$zh}" --gin.test/LabelStream.labels="{$zh}" --gin.train/LabelStream.labels="{$zh}"
  tagger mono mono --gin.LABELS="{$zh}"
}

# Those that learn from English tags too; english, the cascade's first network, learns from those of train_mt.
tagging_in_two_languages() {
  tagger multitask multitask --gin.LABELS="{$en, $zh}"
  tagger english mono --gin.LABELS="{$en}" --gin.LabelStream.split="'train_mt'"
  tagger cascade cascade --gin.LABELS="{$zh}" --gin.FIRST="{$en}" --gin.PRETRAINED="$out/tag_english"
}

# captioner NAME RUN STEPS [OPTION ...]: trains a captioner of Chinese from the ViT.
captioner() {
  local name=$1 run=$2 steps=$3
  train --gin_file=models/tiny.gin "${data[@]}" --gin_file=runs/quickstart.gin --gin_file="runs/caption_$run.gin" \
    --gin.MODEL_DIR="$out/caption_$name" --gin.PRETRAINED="$vit" --gin.train.seed="$seed" --gin.TOTAL_STEPS="$steps" \
    --gin.BATCH_SIZE=64 --gin.LEARNING_RATE=1e-3 --gin.hooks.eval_every=200 --gin.CheckpointPolicy.every=200 \
    --gin.VOCABULARY="$runs/zh.model" --gin.TARGET_LENGTH=8 --gin.CaptionStream.target_lengths="()" \
    --gin.CaptionStream.captions_per_image=1 "${@:4}"
}

# caption NAME MODEL [OPTION ...]: captions and scores the test pictures.
caption() {
  "$xmcap" eval --model_dir="$out/caption_$2" --gin_file=runs/eval.gin --gin.EVAL_DIR="$out/captions/$1" \
    --gin.REFERENCES="$runs/data/test/captions.jsonl" --gin.Predictor.max_length=8 \
    --gin.CaptionEvaluator.languages="('zh',)" \
    --gin.CaptionEvaluator.metrics="('cider_d', 'bleu_4', 'meteor_char', 'rouge_l')" "${@:3}"
}

with_tags=(--gin.Predictor.prompt_tags='@TagPrompts()' --gin.TagPrompts.most=10)

# The captioners that learn from machine-translated captions too.
captioning() {
  captioner mt mt 400 --gin.SPLIT="'train_mt'"
  caption mt mt
  captioner sequential sequential 200 --gin.PRETRAINED="$out/caption_mt" --gin.LEARNING_RATE=1e-4
  caption sequential sequential
  captioner mixed mixed 400 --gin.SPLIT="'train_mt+train'"
  caption mixed mixed
}

# Those that learn from people's captions alone; the second has the picture's own tags in the prompt.
captioning_by_people() {
  local labels=$runs/data/labels/zh
  captioner human sequential 400
  caption human human
  captioner tags sequential 400 --gin.CaptionStream.prompt_length=72 --gin.CaptionStream.prompt_tags='@TagPrompts()' \
    "${with_tags[@]}" --gin.TagPrompts.tags="['$labels/train.jsonl', '$labels/val.jsonl']"
  caption own_tags tags "${with_tags[@]}" --gin.TagPrompts.tags="'$labels/test.jsonl'"
  caption predicted_tags tags "${with_tags[@]}" --gin.TagPrompts.tags="'$out/tags/cascade/predictions.jsonl'"
}

# sentences CODE: trains a Word2VisualVec of a language; embeds a sentence of each validation and test picture.
sentences() {
  train "${data[@]}" --gin_file=runs/w2vv.gin --gin.FEATURES="$runs/features.safetensors" --gin.WORDS="$runs/words" \
    --gin.VALIDATION=val --gin.LANGUAGES="('$1',)" --gin.MODEL_DIR="$out/w2vv_$1" --gin.train.seed="$seed" --gin.TOTAL_STEPS=800 \
    --gin.LEARNING_RATE=1e-3 --gin.EVAL_EVERY=400 --gin.WordStream.split="'train_mt+train'" --gin.WordStream.longest=16 \
    --gin.ATTENTION=True --gin.LOSS="'contrastive'" --gin.RELU_OUTPUT=False \
    --gin.Word2VisualVecConfig.rnn_width=128 --gin.Word2VisualVecConfig.rnn_words=16 --gin.Word2VisualVecConfig.hidden=256
  for split in val test; do
    "$xmcap" embed --model_dir="$out/w2vv_$1" --corpus="$runs/data" --split=$split --languages="$1" \
      --features="$runs/features.safetensors" --out="$out/embeddings/$1_$split"
  done
}

retrieval() {
  local of=$out/embeddings scores=$out/scores
  mkdir -p "$scores"
  sentences zh
  sentences en
  for split in val test; do
    "$xmcap" retrieval scores --queries="$of/zh_$split/captions/zh.npy" --candidates="$of/en_$split/captions/en.npy" \
      --out="$scores/cl_$split.npy"
    "$xmcap" retrieval scores --queries="$of/zh_$split/captions/zh.npy" --candidates="$of/zh_$split/pictures.npy" \
      --out="$scores/cm_$split.npy"
  done
  "$xmcap" retrieval fuse --scores="$scores/cl_test.npy" --scores="$scores/cm_test.npy" \
    --validation_scores="$scores/cl_val.npy" --validation_scores="$scores/cm_val.npy" --out="$scores/clm_test.npy"
  for system in cl cm clm; do
    "$xmcap" score retrieval --scores="$scores/${system}_test.npy" --language=zh --out="$out/retrieval/$system"
  done
}

# compare KIND METRIC DIR ...: paired tests of the first system against each of the others.
compare() {
  "$xmcap" compare --metrics="$2" --out="$out/compare/$1" "${@:3}"
}

echo "== 1/4 building the corpus emoji_tags: drawn emoji scenes with tags, human and machine-translated captions"
"$xmcap" data build emoji_tags --out "$runs/data" --num_emoji=120 --difficulty=easy
[ -e "$runs/zh.model" ] || "$xmcap" data vocabulary "$runs/data" --out "$runs/zh.model" --split=train_mt+train \
  --languages=zh --span_words --size=1500
[ -e "$runs/words" ] || "$xmcap" data words "$runs/data" --out "$runs/words" --split=train_mt+train \
  --languages=zh,en --width=100
[ -e "$runs/labels_mt" ] || "$xmcap" data tags "$runs/data" --out "$runs/labels_mt" --source=mt \
  --labels="$runs/data/labels/zh/labels.txt"
echo "== 2/4 pretraining a ViT on which emoji are in the picture, and computing the vectors of all pictures"
train --gin_file=models/tiny.gin "${data[@]}" --gin_file=runs/pretrain_tags.gin --gin.MODEL_DIR="$runs/tags" \
  --gin.TOTAL_STEPS=4000 --gin.ConstantThenRsqrt.cooldown_steps=2000 \
  --gin.TagStream.split="'train_mt'" --gin.validation/TagStream.split="'val'"
[ -e "$runs/features.safetensors" ] || "$xmcap" features --model_dir="$runs/tags" --corpus="$runs/data" --split=train_mt+train+val+test \
  --out="$runs/features.safetensors"
[ $# -gt 0 ] || set -- 0 1 2
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
export NPROC=1  # one thread of XLA for each of two processes
for seed; do
  out=$runs/seed$seed
  mkdir -p "$out"
  echo "== 3/4 training and testing every system with seed $seed: see $out/1.log and $out/2.log"
  # Each keeps one core busy, and they take about the same time.
  (tagging_in_two_languages; captioning_by_people) >"$out/1.log" 2>&1 & first=$!
  (tagging_in_one_language; captioning; retrieval) >"$out/2.log" 2>&1 & second=$!
  wait "$first" || { tail -n 3 "$out/1.log" >&2; exit 1; }
  wait "$second" || { tail -n 3 "$out/2.log" >&2; exit 1; }
done
for seed; do
  out=$runs/seed$seed
  echo "== 4/4 paired tests with seed $seed"
  (compare tags tags_p5 "$out"/tags/{cascade,mono,multitask,mt}
    compare captions cider_d "$out"/captions/{sequential,mixed,human,mt}) >"$out/tests.log" & tests=$!
  compare captions_tags cider_d "$out"/captions/{human,predicted_tags,own_tags}
  compare retrieval mrr "$out"/retrieval/{clm,cl,cm}
  wait "$tests"
  cat "$out/tests.log"
done
echo "Tables and reports are in $runs/seed*/{tags,captions,retrieval,compare}"
