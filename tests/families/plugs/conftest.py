from tests.models.conftest import (  # noqa: F401
  batch,
  captioner,
  logits,
  params,
  t5_config,
  variables,
  vit_config,
)
