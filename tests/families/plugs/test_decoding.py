"""Stabilizers: decoding in two phases and in one equals slow searches that run the whole decoder for every token."""

import functools
import itertools

import jax
import numpy as np
import pytest

from tests import drawn_params
from xmcap.errors import UsageError
from xmcap.families.plugs.stabilizer import Marks, Stabilizer
from xmcap.models.decoding.beam_search import Beam, n_best
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy, Sample

SEPARATOR, PIVOT, LENGTH, MAX_LENGTH = 22, (5,), 9, 20
# LangIds of one and of two tokens; the first is the pivot's.
PROMPTS = np.array([[5, 0], [6, 0], [7, 8], [9, 3]], np.int32)


def marks(**fields):
  return Marks(Stabilizer(**{"length": LENGTH, **fields}), SEPARATOR, PIVOT)


@pytest.fixture(scope="module")
def images():
  """Pictures whose stabilizers, with these weights, have 1, 2, 4, 5 and 6 tokens."""
  return np.random.RandomState(1).randint(0, 256, (24, 12, 12, 3)).astype(np.uint8)[[0, 5, 6, 8, 12, 14]]


@pytest.fixture(scope="module")
def weights(variables):
  """The separator and EOS are likely."""
  params = drawn_params.like(variables["params"], 29, 0.6)
  logits = params["decoder"]["logits_dense"]["kernel"]
  logits[:, [1, SEPARATOR]] *= 1.5
  logits[:, 0] = 0
  return params


@pytest.fixture(scope="module")
def log_probs(captioner, weights, images):
  """picture -> (tokens so far) -> log-probabilities of the next, with no cache and an encoder that sees no language."""
  forward = jax.jit(lambda *args: jax.nn.log_softmax(captioner.apply({"params": weights}, *args)))

  @functools.cache
  def compute(picture, prefix):
    targets = np.zeros((1, 1, MAX_LENGTH), np.int32)
    targets[0, 0, : len(prefix)] = prefix
    image = images[picture : picture + 1]
    return np.asarray(forward(image, np.zeros((1, 1, 1), np.int32), targets))[0, 0, len(prefix)]

  return lambda picture: functools.partial(compute, picture)


def next_log_probs(log_probs, prompt, tokens):
  """As the model's, but with the LangId forced in after the separator, and no EOS before it."""
  found = np.array(log_probs(tuple(tokens)))
  if SEPARATOR not in tokens:
    found[1] = -np.inf
    return found - np.log(np.exp(found).sum())
  since = len(tokens) - tokens.index(SEPARATOR) - 1
  if since >= np.count_nonzero(prompt):
    return found
  forced = np.full_like(found, -np.inf)
  forced[prompt[since]] = 0
  return forced


def slow_greedy(log_probs, prompt):
  """One phase."""
  tokens, score = [], 0.0
  while len(tokens) < MAX_LENGTH and 1 not in tokens:
    step = next_log_probs(log_probs, prompt, tokens)
    tokens.append(int(step.argmax()))
    score += step.max()
  return tokens, score


def slow_beam(log_probs, prompt, search, start=(), most=MAX_LENGTH, end=1):
  """T5's beam search in plain Python, after `start`, without an early end; `end` ends a hypothesis."""
  live, ended = [((), 0.0)], []
  for length in range(1, most + 1):
    grown = [
      (prefix + (token,), score + float(p))
      for prefix, score in live
      for token, p in enumerate(next_log_probs(log_probs, prompt, [*start, *prefix]))
      if p > -np.inf
    ]
    grown = sorted(grown, key=lambda x: -x[1])[: 2 * search.beams]
    ended += [(t, s / float(search.penalty(length))) for t, s in grown if t[-1] == end]
    live = [x for x in grown if x[0][-1] != end][: search.beams]
  # If none has ended, the best live one.
  final = float(search.penalty(most))
  return max(ended, key=lambda x: x[1]) if ended else (live[0][0], live[0][1] / final)


def rows(tokens):
  return [row[row != 0].tolist() for row in np.asarray(tokens)]


def run(captioner, weights, images, search, **fields):
  found = Generator(captioner, search, MAX_LENGTH, marks=marks(**fields))(weights, images, PROMPTS)
  return [np.asarray(leaf) for leaf in found]


def test_stabilizer_two_phase_decoding_equals_forced_langid(captioner, weights, images, log_probs):
  ends, two = set(), run(captioner, weights, images, Greedy())
  for phases, (tokens, scores) in {2: two, 1: run(captioner, weights, images, Greedy(), phases=1)}.items():
    for picture, language in np.ndindex(len(images), 4):
      expected, score = slow_greedy(log_probs(picture), PROMPTS[language])
      most = len(expected) if phases == 1 else expected.index(SEPARATOR) + 1 + MAX_LENGTH - LENGTH
      assert rows(tokens[picture, language : language + 1]) == [expected[:most]], phases
      if most < len(expected):
        continue
      np.testing.assert_allclose(scores[picture, language], score, rtol=1e-3)
      ends.add((expected.index(SEPARATOR), expected[-1] == 1))
  # Stabilizers of several lengths, aligned to the right; and captions that end.
  assert {place for place, is_ended in ends if is_ended} >= {0, 1, 3, 4, 5}
  assert len({tuple(row) for row in two[0].reshape(-1, MAX_LENGTH).tolist()}) > 12


def test_stabilizer_consistent_beam_fixes_the_best_stabilizer(captioner, weights, images, log_probs):
  search = Beam(3, 0.6)
  tokens, scores = run(captioner, weights, images, search)
  for picture in (1, 3):  # the others take as long
    best, first = slow_beam(log_probs(picture), (), search, most=LENGTH, end=SEPARATOR)
    for language in range(4):
      rest, second = slow_beam(log_probs(picture), PROMPTS[language], search, best, MAX_LENGTH - LENGTH)
      assert rows(tokens[picture, language : language + 1]) == [[*best, *rest]]
      np.testing.assert_allclose(scores[picture, language], first + second, rtol=1e-3)


def test_stabilizer_inconsistent_beam_searches_jointly(captioner, weights, images, log_probs):
  search = Beam(3, 0.6)
  tokens, scores = run(captioner, weights, images, search, phases=1)
  for picture, language in itertools.product((1, 3), range(4)):
    expected, score = slow_beam(log_probs(picture), PROMPTS[language], search)
    assert rows(tokens[picture, language : language + 1]) == [list(expected)]
    np.testing.assert_allclose(scores[picture, language], score, rtol=1e-3)


def test_unfinished_stabilizer_gets_a_separator(captioner, weights, images):
  tokens, _ = run(captioner, weights, images, Greedy())
  end = int((tokens[:, 0] == SEPARATOR).argmax(-1).max())
  cut, _ = run(captioner, weights, images, Greedy(), length=end)
  row = int((tokens[:, 0] == SEPARATOR).argmax(-1).argmax())
  assert cut[row, 0, : end - 1].tolist() == tokens[row, 0, : end - 1].tolist()
  assert (cut[row, :, end - 1] == SEPARATOR).all()
  assert cut[row, 2, end : end + 2].tolist() == PROMPTS[2].tolist()


def test_n_best_candidates_share_the_stabilizer(captioner, weights, images):
  best, scores = run(captioner, weights, images, Beam(3))
  several, of_each = run(captioner, weights, images, n_best(Beam(3), 2))
  np.testing.assert_array_equal(several[:, :, 0], best)
  np.testing.assert_allclose(of_each[:, :, 0], scores, rtol=1e-5)
  assert (several[:, :, 1] != best).any(-1).all()
  share_the_stabilizer(several.reshape(len(images), -1, MAX_LENGTH))


@pytest.mark.full  # the n best candidates share it too
def test_samples_share_the_stabilizer(captioner, weights, images):
  share_the_stabilizer(run(captioner, weights, images, Sample())[0])


def share_the_stabilizer(tokens):
  for of_image in tokens:
    assert len({tuple(row[: row.tolist().index(SEPARATOR)]) for row in of_image}) == 1


def test_stabilizer_max_length_without_room_is_refused(captioner):
  with pytest.raises(UsageError, match="max_length is 10: it must be at least 11"):
    Generator(captioner, Greedy(), LENGTH + 1, marks=marks())


def test_stabilizer_marks_split():
  found = np.array(
    [
      [3, 4, SEPARATOR, 7, 8, 10, 1, 0],  # as asked for
      [3, 4, SEPARATOR, 6, 11, 1, 0, 0],  # another language
      [3, 4, 9, 0, 0, 0, 0, 0],  # no separator
      [3, 4, SEPARATOR, 5, 1, 0, 0, 0],  # the pivot language
      [3, 4, 9, 0, 0, 0, 0, 0],
    ]
  )
  prompts = np.array([[7, 8], [7, 8], [7, 8], [5, 0], [5, 0]])
  for xp in (np, jax.numpy):
    stabilizers, captions = marks().split(xp.asarray(found), xp.asarray(prompts), xp)
    assert rows(stabilizers) == [[3, 4, 1], [3, 4, 1], [3, 4, 9], [3, 4, 1], [3, 4, 9]]
    assert rows(captions) == [[10, 1], [6, 11, 1], [], [3, 4, 1], [3, 4, 9]]


def test_stabilizer_targets():
  consistent, plain = marks(), marks(form="plain")
  target = np.array(
    [[*consistent.target([3, 4], [7, 8], [10]), 0], consistent.target([3, 4], [6], [11, 12, 13])]
  )
  assert rows(target) == [[3, 4, SEPARATOR, 7, 8, 10, 1], [3, 4, SEPARATOR, 6, 11, 12, 13, 1]]
  assert consistent.target([3, 4], PIVOT, [3, 4]) == [3, 4, SEPARATOR, 5, 1]
  prompts = np.array([[7, 8], [6, 0]])
  assert consistent.is_given(target, prompts).astype(int).tolist() == [
    [0, 0, 0, 1, 1, 0, 0, 0],
    [0, 0, 0, 1, 0, 0, 0, 0],
  ]
  assert not plain.is_given(target, prompts).any()
