import pytest

from tests.make import models
from xmcap.families.dual import embedder
from xmcap.families.dual.model import DualTower
from xmcap.families.dual.objective import ContrastiveObjective


@pytest.fixture
def objective(monkeypatch):
  """The objective of `models.dual_tower`; evaluators take the tower from gin."""
  sizes = models.DUAL_VIT, models.DUAL_T5, models.DUAL
  monkeypatch.setattr(embedder, "configured_tower", lambda: DualTower(*sizes))
  return ContrastiveObjective(*sizes)


@pytest.fixture
def params(objective):
  return models.dual_params()
