from itertools import product

from lab.streams import stream_seed


def test_a_pure_function_that_never_changes():
    assert stream_seed(0, 1, "init", "embedding.weight") == stream_seed(0, 1, "init", "embedding.weight")
    assert stream_seed(0, 1, "data") == 7664899752646887012
    assert stream_seed(0, 1, "noise", 7) == 5059490022855482202


def test_all_differ():
    seeds = [
        stream_seed(study, seed, stream, *keys)
        for study, seed, stream, keys in product(
            range(4), range(20), ("init", "data", "noise", "eval"), ((), (1,), (2,), (11,), (1, 1), ("a.b",))
        )
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62
