from contracts.menu import model


def test_leaves_no_norm_anywhere():
    names = [name for name, _ in model(norm="none").named_parameters()]
    assert not [name for name in names if "norm" in name]
