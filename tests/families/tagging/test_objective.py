"""The networks that predict labels, and their gradients, against the same networks in torch."""

import jax
import numpy as np
import pytest

from tests import drawn_params, lazily
from tests.corpora import label_folders
from xmcap.errors import UsageError
from xmcap.families.tagging.objective import LabelObjective
from xmcap.models.vit import ViTConfig

torch = lazily.Module("torch")

WIDTH, HIDDEN, ROWS = 5, 7, 6
VIT = ViTConfig(width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=8, image_size=8, dtype="float32")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  root = tmp_path_factory.mktemp("labels")
  return {
    code: label_folders.write(root / code, code, names) for code, names in (("en", "abc"), ("zh", "abcd"))
  }


def only(folders, *codes):
  return {code: folders[code] for code in codes}


def batch_of(labels):
  rng = np.random.default_rng(1)
  there = rng.integers(0, 2, (ROWS, labels)).astype(np.uint8)
  there[:, ::3] = 1  # at least one in every language
  return {
    "features": rng.normal(size=(ROWS, WIDTH)).astype(np.float32),
    "labels": there,
    "weights": np.ones(ROWS, np.float32),
  }


def loss_and_grads(objective, params, batch):
  def loss(params):
    return objective.loss(params, batch, jax.random.key(0), True)[0]

  return jax.jit(jax.value_and_grad(loss))(params)


class Peer:
  """torch.nn.Linear layers by the paths of our parameters, with the same values."""

  def __init__(self, params):
    self.layers = {}
    for network, layers in params.items():
      for name, layer in layers.items():
        made = torch.nn.Linear(*layer["kernel"].shape)
        made.weight.data = torch.tensor(np.asarray(layer["kernel"]).T.copy())
        made.bias.data = torch.tensor(np.asarray(layer["bias"]))
        self.layers[network, name] = made

  def head(self, network, code, x):
    return self.layers[network, code](torch.relu(self.layers[network, "hidden"](x)))

  def compare(self, loss, ours):
    value, grads = ours
    np.testing.assert_allclose(value, loss.detach(), rtol=1e-5)
    loss.backward()
    for (network, name), layer in self.layers.items():
      mine = grads[network][name]
      kernel, bias = (
        torch.zeros_like(of) if of.grad is None else of.grad for of in (layer.weight, layer.bias)
      )
      np.testing.assert_allclose(mine["kernel"].T, kernel, atol=1e-5, err_msg=f"{network}/{name}")
      np.testing.assert_allclose(mine["bias"], bias, atol=1e-5, err_msg=f"{network}/{name}")


def bce(probabilities, labels):
  return torch.nn.functional.binary_cross_entropy(probabilities, torch.tensor(labels, dtype=torch.float32))


@pytest.mark.parametrize("codes", [("zh",), ("en", "zh")], ids=["mono", "multitask"])
def test_label_objective_has_a_hidden_layer_and_a_head_per_language(folders, codes):
  objective = LabelObjective(only(folders, *codes), vit=None, hidden=HIDDEN)
  batch = batch_of({1: 4, 2: 7}[len(codes)])
  params = drawn_params.of(objective.init, batch)
  peer, x = Peer(params), torch.tensor(batch["features"])
  parts = {"en": slice(0, 3), "zh": slice(-4, None)}
  losses = [bce(torch.sigmoid(peer.head("tags", code, x)), batch["labels"][:, parts[code]]) for code in codes]
  peer.compare(sum(losses), loss_and_grads(objective, params, batch))


def test_label_objective_with_two_hidden_layers(folders):
  objective = LabelObjective(only(folders, "zh"), vit=None, hidden=[HIDDEN, 3])
  batch = batch_of(4)
  params = drawn_params.of(objective.init, batch)
  peer, x = Peer(params), torch.tensor(batch["features"])
  for name in ("hidden", "hidden_2"):
    x = torch.relu(peer.layers["tags", name](x))
  loss = bce(torch.sigmoid(peer.layers["tags", "zh"](x)), batch["labels"])
  peer.compare(loss, loss_and_grads(objective, params, batch))
  with pytest.raises(UsageError, match="hidden is \\(\\): give the width of at least one layer"):
    LabelObjective(only(folders, "zh"), vit=None, hidden=())


def test_label_objective_cascade(folders):
  objective = LabelObjective(only(folders, "zh"), vit=None, first=only(folders, "en"), hidden=HIDDEN)
  batch = batch_of(4)
  params = drawn_params.of(objective.init, batch)
  peer, x = Peer(params), torch.tensor(batch["features"])
  with torch.no_grad():
    first = torch.sigmoid(peer.head("tags", "en", x))
  loss = bce(torch.sigmoid(peer.head("cascade", "zh", torch.cat([first, x], 1))), batch["labels"])
  peer.compare(loss, loss_and_grads(objective, params, batch))


def test_cascade_first_network_equals_a_separate_run(folders):
  batch = batch_of(4)
  own = LabelObjective(only(folders, "en"), vit=None, hidden=HIDDEN)
  cascade = LabelObjective(only(folders, "zh"), vit=None, first=only(folders, "en"), hidden=HIDDEN)
  shapes = [
    jax.tree.map(np.shape, jax.eval_shape(one.init, jax.random.key(0), batch)["params"]["tags"])
    for one in (own, cascade)
  ]
  assert shapes[0] == shapes[1]


def test_cascade_dropout_is_in_the_second_network_only(folders):
  batch = batch_of(4)
  options = dict(vit=None, first=only(folders, "en"), hidden=HIDDEN)
  objective = LabelObjective(only(folders, "zh"), dropout_rate=0.5, **options)
  params = drawn_params.of(objective.init, batch)
  apply = objective.module.apply

  def logits(seed):
    kept = {
      "tags": params["tags"],
      "cascade": {**params["cascade"], "hidden": {**params["cascade"]["hidden"]}},
    }
    # Only what the first network predicts reaches the second: a mask of the first would show here.
    kept["cascade"]["hidden"]["kernel"] = (
      kept["cascade"]["hidden"]["kernel"] * (np.arange(3 + WIDTH) < 3)[:, None]
    )
    found, state = apply(
      {"params": kept}, batch["features"], False, rngs={"dropout": jax.random.key(seed)},
      capture_intermediates=lambda module, _: module.name == "hidden",
    )  # fmt: skip
    return found, state["intermediates"]["cascade"]["hidden"]["__call__"][0]

  (one, before), (other, same) = logits(0), logits(1)
  np.testing.assert_array_equal(before, same)
  assert not np.array_equal(one, other)


def test_label_loss_omits_images_without_labels_per_language(folders):
  objective = LabelObjective(folders, vit=None, hidden=HIDDEN)
  batch = batch_of(7)
  params = drawn_params.of(objective.init, batch)
  batch["labels"][2, :3] = 0
  whole = float(loss_and_grads(objective, params, batch)[0])
  logits = objective.module.apply({"params": params}, batch["features"])
  each = np.logaddexp(0, logits) - logits * batch["labels"]
  english = each[:, :3].mean(1) * (np.arange(ROWS) != 2)
  np.testing.assert_allclose(whole, (english + each[:, 3:].mean(1)).mean(), rtol=1e-5)


def test_label_loss_omits_images_of_weight_0(folders):
  objective = LabelObjective(only(folders, "zh"), vit=None, hidden=HIDDEN)
  batch = batch_of(4)
  params = drawn_params.of(objective.init, batch)
  fewer = {name: array[:-1] for name, array in batch.items()}
  batch["weights"][-1] = 0
  for one, other in zip(
    jax.tree.leaves(loss_and_grads(objective, params, batch)),
    jax.tree.leaves(loss_and_grads(objective, params, fewer)),
    strict=True,
  ):
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_label_objective_trains_the_vit(folders):
  objective = LabelObjective(only(folders, "zh"), vit=VIT, hidden=HIDDEN)
  batch = batch_of(4) | {"image": np.random.default_rng(0).integers(0, 256, (ROWS, 8, 8, 3)).astype(np.uint8)}
  params = drawn_params.of(objective.init, batch)
  _, grads = loss_and_grads(objective, params, batch)
  assert set(params) == {"vit", "tags"} and np.any(grads["vit"]["patch_embedding"]["kernel"])
