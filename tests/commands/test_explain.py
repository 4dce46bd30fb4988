"""What `lab explain` says of a run."""

import json

import pytest

from lab import cli

PAGE_WIDTH = 100
SIZES = ("model.dim=64", "model.n_layers=2", "model.n_heads=2", "model.max_seq_len=64")


@pytest.fixture
def explain(words, capsys):
    """Explain a small run: the facts as JSON, or the page."""

    def call(*overrides, page=False):
        capsys.readouterr()
        status = cli._run(["explain", *words(*SIZES, *overrides), *([] if page else ["--format", "json"])])
        output = capsys.readouterr()
        assert (status, output.err) == (0, "")
        return output.out if page else json.loads(output.out)

    return call


def test_parameters_and_flops_are_those_of_the_papers_formulas(explain):
    facts = explain("norm=rmsnorm", "attn=mha", "activation=swiglu", "stability=none")
    dim, layers, heads, head_dim, length, size = 64, 2, 2, 32, 64, 257
    assert facts["model"] == {
        "dim": dim,
        "n_layers": layers,
        "n_heads": heads,
        "head_dim": head_dim,
        "max_seq_len": length,
        "vocab_size": size,
        "tie_embeddings": False,
    }
    d_ff = 168  # the multiple of 8 nearest to 8/3 of 64
    matrices = layers * (4 * dim * dim + 3 * dim * d_ff)
    inside = matrices + (2 * layers + 1) * dim
    assert facts["parameters"] == {"non_embedding": inside, "total": inside + 2 * size * dim}
    assert facts["flops_per_token"] == 6 * (matrices + size * dim) + 12 * layers * heads * head_dim * length
    assert "arXiv:2204.02311" in facts["flops_formula"]


def test_auto_is_resolved_and_the_training_is_counted(explain):
    facts = explain("train.steps=7", "train.batch_size=3", "precision=auto", "threads=1", "attn_path=plain")
    assert (facts["device"], facts["threads"], facts["attention_path"]) == ("cpu", 1, ["plain"])
    assert facts["precision"] in ("fp32", "bf16")
    assert facts["compile"] is False
    assert (facts["steps"], facts["tokens_per_step"], facts["tokens"]) == (7, 192, 1344)
    windows = (facts["data"]["train_tokens"] - 64) // 64
    assert facts["epochs"] == pytest.approx(21 / windows)
    assert "cut by position" in facts["data"]["split"]


def test_every_group_is_there_with_what_its_module_says_first(explain):
    from lab import choices

    chosen = ("stability=[z_loss,qk_norm]", "attention=gqa", "attention.n_kv_heads=1")
    components = explain(*chosen)["components"]
    assert [part["group"] for part in components if part["group"] != "stability"] == [
        group for group in choices.GROUPS if group != "stability"
    ]
    assert [part["name"] for part in components if part["group"] == "stability"] == ["qk_norm", "z_loss"]
    for part in components:
        lines = choices.load(part["group"], part["name"]).__doc__.splitlines()
        assert part["description"] == lines[0]
    norm, attn = (next(part for part in components if part["group"] == group) for group in ("norm", "attn"))
    assert norm == {
        "group": "norm",
        "name": "rmsnorm",
        "description": norm["description"],
        "settings": {"eps": 1e-5},
    }
    assert "arXiv:1910.07467" in norm["description"]
    assert attn["settings"]["n_kv_heads"] == 1


@pytest.mark.slow
def test_the_run_is_the_one_that_would_be_trained_and_nothing_is_written(explain, train, outputs):
    facts = explain()
    assert facts["status"] == "new"
    assert not outputs.exists()
    trained = train(*SIZES)
    assert trained.folder.name == facts["id"]
    assert str(trained.folder) == facts["folder"]
    again = explain()
    assert {**facts, "status": "done"} == again
    assert explain("seed=2")["id"] != facts["id"]


@pytest.mark.slow
def test_a_run_that_was_begun(explain, config):
    from lab.paths import runs_dir
    from lab.runs.store import RunFolder
    from lab.training.plan import plan

    folder = RunFolder(runs_dir() / plan(config(*SIZES)).run_id)
    folder.path.mkdir(parents=True)
    folder.write_result({"status": "running"})
    assert explain()["status"] == "partial"
    with folder.locked():
        assert explain()["status"] == "running"
    folder.write_result({"status": "diverged"})
    assert explain()["status"] == "diverged"


@pytest.mark.slow
def test_the_page_has_the_same_facts_and_fits(explain):
    chosen = ("stability=[qk_norm,z_loss]", "regularization=[dropout,weight_decay]")
    facts, page = explain(*chosen), explain(*chosen, page=True)
    assert "\x1b" not in page
    lines = page.splitlines()
    assert max(map(len, lines)) <= PAGE_WIDTH
    assert all(line == line.rstrip() for line in lines)
    flat = " ".join(page.split())
    assert facts["id"] in flat
    assert "not trained yet" in flat
    counted = facts["parameters"]
    assert f"{counted['total']:,} in total, {counted['non_embedding']:,} without embeddings and head" in flat
    assert f"{facts['flops_per_token']:,.0f} for a token in training" in flat
    assert f"{facts['tokens']:,} tokens, {facts['epochs']:.2f} epochs" in flat
    assert f"cpu in fp32, 1 thread; attention by {facts['attention_path'][0]}; not compiled" in flat
    for part in facts["components"]:
        assert part["name"] in flat
        for word in part["description"].split():
            assert word in flat
        for key in part["settings"]:
            assert f"{key} " in flat
