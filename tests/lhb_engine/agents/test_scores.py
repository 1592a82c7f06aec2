import numpy as np
import pytest

from lhb_engine.agents.scores import scores_of

DIMS = [1, 5, 10, 33]


@pytest.fixture(params=DIMS)
def block(request):
    rng = np.random.default_rng(request.param)
    return rng.standard_normal((40, 7, request.param)), rng.standard_normal(request.param)


def test_equal_arms_get_equal_scores(block):
    contexts, theta = block
    repeated = np.repeat(contexts[:, :1], 11, axis=1)
    scores = scores_of(repeated, theta)
    assert (scores == scores[:, :1]).all()


def test_no_batching_changes_a_bit(block):
    contexts, theta = block
    scores = scores_of(contexts, theta)
    for i in range(len(contexts)):
        assert (scores_of(contexts[i], theta) == scores[i]).all()
        for k in range(contexts.shape[1]):
            assert scores_of(contexts[i, k : k + 1], theta)[0] == scores[i, k]


def test_permutation_only_permutes(block):
    contexts, theta = block
    order = np.random.default_rng(0).permutation(contexts.shape[1])
    expected = scores_of(contexts, theta)[:, order]
    assert (scores_of(contexts[:, order], theta) == expected).all()


@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "misaligned", "one_round"])
def test_memory_layout_does_not_matter(block, layout):
    contexts, theta = block
    expected = scores_of(contexts, theta)
    if layout == "fortran":
        contexts = np.asfortranarray(contexts)
    elif layout == "strided":
        contexts = np.repeat(contexts, 3, axis=-1)[..., ::3]
    elif layout == "reversed":
        contexts, expected = contexts[:, ::-1], expected[:, ::-1]
    elif layout == "misaligned":
        raw = np.frombuffer(b"x" + contexts.tobytes(), dtype=np.uint8)[1:]
        contexts = raw.view(np.float64).reshape(contexts.shape)
    else:
        contexts, expected = contexts[:1, :1], expected[:1, :1]
    assert (scores_of(contexts, theta) == expected).all()
