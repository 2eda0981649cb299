"""Validation of launch options, and gcloud names of TPU types."""

import pytest

from tests.launch.stubs import HOSTILE
from xmcap.errors import UsageError
from xmcap.launch import gcloud, options


@pytest.mark.parametrize(
  ("rule", "value"),
  [
    ("word", "my-project-123456"),
    ("word", "example.com:my-project"),
    ("word", "us-central1-ai1a"),
    ("name", "bb"),
    ("name", "a" * 63),
    ("word", "us-docker.pkg.dev/my-project/xmcap/xmcap@sha256:0a"),
    ("word", "2-12:00:00"),
    ("word", "projects/p/zones/us-central2-b/disks/d"),
    ("word", "a100|h100"),
    ("option", "--mem=200G"),
    ("option", "--comment=a $b"),
    ("env", "XLA_FLAGS=--a --b\n"),
  ],
)
def test_launch_option_values_are_accepted(rule, value):
  assert options.check_text(rule, value, "x") == value


@pytest.mark.parametrize(
  ("rule", "value"),
  [
    ("word", "us-central2-b\n"),
    ("name", "1bb"),
    ("name", "bb-"),
    ("name", "a" * 64),
    ("word", "-bb"),
    ("slice", "v4"),
    ("slice", "v4-0"),
    ("slice", "v4-" + "9" * 5000),
    ("slice", "v" + "9" * 5000 + "-8"),
    ("number", "9" * 5000),
    ("number", "٣"),
    ("word", "3.12; true"),
    ("word", "$HOME"),
    ("option", "-n8"),
    ("option", "--a b"),
    ("option", "--a=b\n#SBATCH --uid=0"),
    ("env", "1A=b"),
    ("env", "A"),
  ],
)
def test_launch_option_values_are_refused(rule, value):
  with pytest.raises(UsageError) as error:
    options.check_text(rule, value, "x")
  assert "must be" in str(error.value) and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("rule", [rule for rule in options._RULES if rule != "env"])
def test_launch_option_rules_refuse_hostile_text(rule):
  for value in HOSTILE:
    if value not in ("~", "*", "-", "--"):
      with pytest.raises(UsageError) as error:
        options.check_text(rule, value, "x")
      assert str(error.value).isprintable()


def test_gcloud_accelerator_type_of_v5e_is_v5litepod():
  assert gcloud.accelerator_type("v5e-256") == "v5litepod-256"


@pytest.mark.parametrize(
  ("slice_type", "version"),
  [
    ("v4-128", "tpu-ubuntu2204-base"),
    ("v5litepod-16", "v2-alpha-tpuv5-lite"),
    ("v5p-128", "v2-alpha-tpuv5"),
    ("v6e-64", "v2-alpha-tpuv6e"),
  ],
)
def test_gcloud_runtime_version_by_slice_type(slice_type, version):
  # The table of cloud.google.com/tpu/docs/runtimes (2025).
  assert gcloud.runtime_version(slice_type) == version


def test_gcloud_runtime_version_of_an_unknown_kind_is_refused():
  with pytest.raises(UsageError, match="--gcloud_create=--runtime-version"):
    gcloud.runtime_version("v9-8")
