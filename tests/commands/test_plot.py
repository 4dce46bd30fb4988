"""`lab plot`: what it writes, and what it says when it cannot."""

import pytest

from lab import cli, figure
from lab.commands import plot
from lab.completion import candidates
from tests.figure.test_runs import run

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def outputs(tmp_path):
    for seed in (1, 2):
        for name in ("rmsnorm", "layernorm"):
            run(tmp_path / "outputs", name, seed)
    return str(tmp_path / "outputs")


ALL = [
    pytest.param(kind, suffix, marks=() if (kind, suffix) == ("loss", "svg") else pytest.mark.slow)
    for kind in ("loss", "gradnorm", "spikes", "lr", "effects")
    for suffix in BEGINNINGS
]


@pytest.mark.parametrize(("kind", "suffix"), ALL)
def test_each_kind_in_each_format_and_the_same_each_time(kind, suffix, outputs, tmp_path, capsys):
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file in files:
        assert plot.main([kind, outputs, "-o", str(file)]) == 0
    assert capsys.readouterr().out.split() == [str(file) for file in files]
    one, two = (file.read_bytes() for file in files)
    assert one.startswith(BEGINNINGS[suffix])
    assert one == two


def said(capsys, *argv):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["plot", *argv])
    err = capsys.readouterr().err
    assert exit_.value.code in (1, 2)
    assert err.count("\n") == 1
    return err


@pytest.mark.slow
def test_errors_are_one_line(outputs, tmp_path, capsys):
    assert ".png, .svg, .pdf" in said(capsys, "loss", outputs, "-o", "x.jpg")
    assert "did you mean 'loss'" in said(capsys, "los", outputs, "-o", "x.png")
    assert "--output is missing" in said(capsys, "loss", outputs)
    assert "no such file" in said(capsys, "loss", str(tmp_path / "nowhere"), "-o", "x.png")
    assert "cannot be written" in said(capsys, "loss", outputs, "-o", str(tmp_path / "nowhere" / "x.png"))
    assert "--baseline 'x'" in said(capsys, "effects", outputs, "--baseline", "x", "-o", "x.png")
    assert "an override and" in said(capsys, "layers", outputs, "block=pre", "-o", "x.png")
    (tmp_path / "empty").mkdir()
    assert "no runs in" in said(capsys, "loss", str(tmp_path / "empty"), "-o", "x.png")


@pytest.mark.slow
def test_several_values_make_several_configurations():
    found = plot._choices(["activation=gelu,swiglu", "model=tiny"])
    assert [choice.label for choice in found] == ["activation=gelu", "activation=swiglu"]
    assert [choice.config.activation.name for choice in found] == ["gelu", "swiglu"]
    assert plot._choices(["model=tiny"])[0].label == ""


def test_kinds_are_files(capsys):
    assert {"loss", "gradnorm", "spikes", "lr", "effects", "layers"} <= figure.listing().keys()
    assert all(line.endswith(".") for line in figure.listing().values())
    assert "gradnorm" in candidates("lab plot ")
    assert "slide" in candidates("lab plot loss --style ")
    with pytest.raises(SystemExit):
        plot.main(["--help"])
    assert "gradnorm" in capsys.readouterr().out


def test_a_run_may_be_named_by_its_id(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    for name in ("abcdef123456", "abcdef999999", "fedcba123456"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").touch()
    assert plot._place("fedcba") == tmp_path / "runs" / "fedcba123456"
    assert plot._place("fedc").name == "fedc"  # may be a study's name
    assert plot._place("abcdef").name == "abcdef"  # two runs begin so
    assert plot._place(str(tmp_path)) == tmp_path
