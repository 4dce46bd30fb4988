"""What all optimizers promise: decay apart from the gradient, a rate that may change, a state that goes round."""

import pytest
import torch
from contracts.menu import config, values

from lab import choices
from lab.training.checkpoint import load_newest, save_checkpoint
from lab.training.loop import train_step
from lab.training.plan import plan
from lab.training.state import new_state
from optim.steps import group, random, set_rates

every_optimizer = pytest.mark.parametrize("name", choices.names("optim"))


def parameters():
    """A matrix of a block, a table and a gain."""
    return [torch.nn.Parameter(random(*shape, seed=s).float()) for s, shape in enumerate([(3, 4), (5, 4), (4,)])]


def built(optim, made, *, decay=0.0):
    matrix, table, gain = made
    groups = [
        group(matrix, decay=decay),
        group(table, decay=decay, lr_scale=optim.peak_lr(hidden=False) / optim.lr, hidden=False),
        group(gain, decay=2 * decay, lr_scale=0.25, hidden=False),
    ]
    return optim.build(groups)


def after(optim, *, steps=4, factor=0.5, decay=0.0, zero=False):
    made = parameters()
    optimizer = built(optim, made, decay=decay)
    for step in range(steps):
        set_rates(optim, optimizer, factor)
        for number, parameter in enumerate(made):
            gradient = random(*parameter.shape, seed=10 * step + number + 5).float()
            parameter.grad = torch.zeros_like(gradient) if zero else gradient * 0.3**number
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return [parameter.detach() for parameter in made]


@every_optimizer
def test_every_parameter_moves_and_the_groups_keep_their_keys(name):
    optim = config("optim", name)
    optimizer = built(optim, parameters(), decay=0.5)
    assert [each["weight_decay"] for each in optimizer.param_groups] == [0.5, 0.5, 1.0]
    assert [each["hidden"] for each in optimizer.param_groups] == [True, False, False]
    assert [each["lr_scale"] for each in optimizer.param_groups][::2] == [1.0, 0.25]
    assert {each["lr"] for each in optimizer.param_groups} == {optim.lr}
    for old, new in zip(parameters(), after(optim, steps=1), strict=True):
        assert new.isfinite().all()
        assert not (new == old).any()


@every_optimizer
def test_without_a_gradient_decay_is_all_there_is(name):
    """θ ← θ - lr_t λ θ, with the rate and the λ of each group."""
    optim = config("optim", name)
    decayed = after(optim, steps=3, factor=0.5, decay=0.1, zero=True)
    matrix, table, gain = parameters()
    peaks = optim.lr, optim.peak_lr(hidden=False), 0.25 * optim.lr
    for start, end, peak, rate in zip((matrix, table, gain), decayed, peaks, (0.1, 0.1, 0.2), strict=True):
        expected = start.detach().double() * (1 - 0.5 * peak * rate) ** 3
        torch.testing.assert_close(end.double(), expected, rtol=1e-6, atol=0)


@every_optimizer
def test_decay_leaves_the_gradients_part_alone(name):
    """After one step from the same point, the difference is the decay of that point."""
    optim = config("optim", name)
    plain, decayed = (after(optim, steps=1, decay=decay) for decay in (0.0, 0.1))
    peaks = optim.lr, optim.peak_lr(hidden=False), 0.25 * optim.lr
    for start, one, other, peak, rate in zip(parameters(), plain, decayed, peaks, (0.1, 0.1, 0.2), strict=True):
        expected = -0.5 * peak * rate * start.detach().double()
        torch.testing.assert_close((other - one).double(), expected, rtol=0, atol=3e-7)


@every_optimizer
def test_at_a_rate_of_zero_nothing_moves(name):
    for start, end in zip(parameters(), after(config("optim", name), factor=0.0, decay=0.1), strict=True):
        assert torch.equal(start, end)


@every_optimizer
def test_two_runs_are_equal(name):
    one, other = (after(config("optim", name), decay=0.1) for _ in range(2))
    assert all(map(torch.equal, one, other))


@every_optimizer
@pytest.mark.parametrize("hidden", [True, False])
def test_one_kind_of_parameter_alone_and_one_without_a_gradient(name, hidden):
    moved, still = (torch.nn.Parameter(random(3, 4, seed=s).float()) for s in (0, 1))
    optimizer = config("optim", name).build([group(moved, still, hidden=hidden)])
    before = still.detach().clone()
    moved.grad = random(3, 4, seed=2).float()
    optimizer.step()
    assert not torch.equal(moved, parameters()[0])
    assert torch.equal(still, before)


OTHER = {
    "nesterov": lambda old: not old,
    "adjust": lambda old: "match_rms_adamw",
    "ns_steps": lambda old: old - 2,
    "beta2_decay": lambda old: old / 2,
    "eps": lambda old: 0.1,
    "eps1": lambda old: 0.5,
    "eps2": lambda old: 5.0,
    "clip_threshold": lambda old: 1.05,
}
"""Another value of a key, where half the value would not do."""
NOT_ITS_OWN = {"name", "grad_clip"}
"""Keys that are read elsewhere: clipping is the loop's."""


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name in choices.names("optim") for key in values("optim", name) if key not in NOT_ITS_OWN],
)
def test_every_key_changes_an_update(name, key):
    plain = config("optim", name)
    changed = config("optim", name, **{key: OTHER.get(key, lambda old: old / 2)(getattr(plain, key))})
    assert not all(map(torch.equal, after(plain), after(changed)))


@pytest.fixture
def run_config(request):
    """The fixture ``config``, whose name is taken by the menu's function here."""
    return request.getfixturevalue("config")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n if n in ("adamw", "muon") else pytest.param(n, marks=pytest.mark.slow) for n in choices.names("optim")],
)
def test_the_state_goes_through_a_checkpoint(name, run_config, tmp_path):
    """Two steps, a checkpoint, two more in another state: equal bit for bit to four."""
    planned = plan(run_config(f"optim={name}", "regularization=weight_decay", "model.max_seq_len=16"))

    def begin():
        return new_state(planned.config, planned.architecture)

    def train(state, to):
        while state.step < to:
            train_step(planned.config, state, planned.batches)
        return state

    whole, half = train(begin(), 4), train(begin(), 2)
    save_checkpoint(tmp_path, half.tensors(), half.step)
    resumed = begin()
    resumed.load(*load_newest(tmp_path, most_steps=2))
    assert resumed.step == 2
    expected, found = whole.tensors(), train(resumed, 4).tensors()
    assert any(key.startswith("optim.blocks.0.attn.q.weight.") for key in expected)
    assert expected.keys() == found.keys()
    for key, tensor in expected.items():
        assert torch.equal(tensor, found[key]), key
        assert tensor.dtype == found[key].dtype, key
