"""What a model remembers beside its weights goes through a checkpoint too."""

import pytest

from training.folders import assert_same, resumed_from, the_run


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [(), pytest.param(("train.micro_batch_size=2", "train.eval_every=4"), marks=pytest.mark.slow)]
)
def test_the_vectors_of_the_spectral_norms(kill_at, train, elsewhere, outputs, more):
    overrides = ("stability=sigma_reparam", *more)
    kill_at(13, *overrides)
    train(*overrides)
    assert resumed_from(the_run(outputs)) == [10]
    assert_same(the_run(outputs), elsewhere(*overrides))
