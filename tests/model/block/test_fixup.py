import pytest
import torch
from contracts.menu import SIZES, model, shaken


def stream():
    return torch.randn(2, 5, SIZES.dim, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("norm", ["none", "layernorm"])
def test_a_branch_has_a_bias_before_and_after_and_a_multiplier(norm):
    block, x = shaken(model(block="fixup", norm=norm)).blocks[0].double(), stream().double()
    values = {name: p.detach().item() for name, p in block.named_parameters() if "_scalars." in name}
    assert len(set(values.values())) == 6

    def added(branch, y):
        inside = getattr(block, f"{branch}_norm")(y) + values[f"{branch}_scalars.bias_in"]
        made = block.attn(inside)[0] if branch == "attn" else block.ffn(inside)
        return values[f"{branch}_scalars.scale"] * made + values[f"{branch}_scalars.bias_out"]

    y = x + added("attn", x)
    torch.testing.assert_close(block(x)[0], y + added("ffn", y), rtol=1e-12, atol=1e-12)


def test_scalars_start_at_one_and_zero():
    net = model(block="fixup")
    found = {name: p.tolist() for name, p in net.named_parameters() if "_scalars." in name}
    assert len(found) == 6 * SIZES.n_layers
    assert all(value == ([1.0] if name.endswith(".scale") else [0.0]) for name, value in found.items())


@torch.no_grad()
def test_at_its_start_it_is_the_plain_residual_block():
    x = stream()
    fixup, pre = (model(block=block, norm="none").blocks[0] for block in ("fixup", "pre"))
    assert torch.equal(fixup(x)[0], pre(x)[0])
