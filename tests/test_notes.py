"""docs/notes.md: each command that it shows runs, made small; what it names is there; verdicts are the ledger's."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import yaml

from lab import cli
from lab.study import claim_verdict
from lab.study.claims import claim

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/notes.md"
TINY = ["model=tiny", "threads=1"]
TEXTS = ("vocab",)
"""Studies that vary their text, or need more of it than a few pages."""
NOTES = importlib.util.spec_from_file_location("notes", ROOT / "scripts/notes.py")


def commands() -> list[str]:
    """Lines of the bash blocks, each once."""
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [
        re.sub(r"\s+#.*", "", line).strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()
    ]
    return [*dict.fromkeys(line for line in lines if line)]


def after(command: str) -> bool:
    """Whether a command trains, or takes what an earlier one has trained."""
    words = command.split()
    return words[1] in ("train", "table") or "RUN" in words or (words[1:3] == ["plot", "gradnorm"])


def short(command: str, folder: Path, book: Path) -> list[str]:
    """The words of a command, such that it takes seconds, trains on a short book and writes into a folder."""
    words = [re.sub(r"^tier=.*", "tier=smoke", word) for word in shlex.split(command)[1:]]
    studies = [word.removeprefix("study=") for word in words if word.startswith("study=")]
    if words[0] == "train":
        words += smaller(studies[0]) if studies else [*TINY, "train.steps=2"]
        words += [] if studies and studies[0] in TEXTS else ["data=text", f"data.file={book}"]
    elif words[0] == "kv":  # tests/commands/test_kv.py has the speed
        words += [*([] if "--no-speed" in words else ["--no-speed"]), *TINY]
    elif words[0] == "profile":
        words += [*TINY, "--steps", "2"]
    elif words[:2] in (["plot", "span"], ["plot", "layers"]):
        words += TINY
    return [
        str(folder / word) if before == "-o" else word for before, word in zip(["", *words], words, strict=False)
    ]


def smaller(name: str) -> list[str]:
    """What leaves a study its baseline and one variant, a seed each, trained in this process."""
    study = yaml.safe_load((ROOT / f"conf/study/{name}.yaml").read_text(encoding="utf-8"))["study"]
    own = ["study.tiers.smoke.report=1", "threads=1", "hydra/launcher=basic"]
    if study.get("variants") and study.get("contrasts", "auto") == "auto":
        own.append(f"study.tiers.smoke.arms=[{next(iter(study['variants']))}]")
    return own


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, book):
    """Run a command of the page, made short, in this process."""
    monkeypatch.setattr("sys.argv", ["lab"])

    def run(command):
        words = short(command, tmp_path, book)
        if "RUN" in words:  # that of `lab train stability=qk_norm`
            results = (tmp_path / "outputs/runs").glob("*/result.json")
            words[words.index("RUN")] = next(path.parent.name for path in results if "qk_norm" in path.read_text())
        status = cli._run(words)
        output = capsys.readouterr()
        assert status == 0, f"{command}: {output.err}"
        assert output.out, command

    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "outputs"))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in commands() if not after(command)])
def test_a_command_that_trains_nothing(run, command):
    run(command)


@pytest.mark.slow
def test_commands_that_train_and_what_is_done_with_their_runs(run):
    trained = [command for command in commands() if after(command) and command.startswith("lab train ")]
    single = [command for command in trained if "study=" not in command]
    of_runs = [command for command in commands() if after(command) and command not in trained]
    for command in [*single, *(c for c in of_runs if "RUN" in c)]:
        run(command)
    for command in [*(c for c in trained if c not in single), *(c for c in of_runs if "RUN" not in c)]:
        run(command)


def test_what_the_page_names_is_there():
    text = PAGE.read_text(encoding="utf-8")
    named = [
        name
        for part in re.findall(r"^Claims: (.*?)\n\n", f"{text}\n", re.MULTILINE | re.DOTALL)
        for name in re.findall(r"`(.+?)`", part)
    ]
    assert len({*named}) > 80
    for name in named:
        claim(name)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (PAGE.parent / link).is_file(), link
    for study in re.findall(r"study=([\w-]+)", text):
        assert (ROOT / f"conf/study/{study}.yaml").is_file(), study


@pytest.mark.slow
def test_its_verdicts_are_the_ledgers():
    notes = importlib.util.module_from_spec(NOTES)
    NOTES.loader.exec_module(notes)
    text = PAGE.read_text(encoding="utf-8")
    rows = notes.ledger()
    shown = re.findall(r"^- `.*\*\*.*$", text, re.MULTILINE)
    assert {*shown} <= {*notes.filled(text, rows).splitlines()}, "python scripts/notes.py"
    name = next(iter(re.findall(r"^Claims: `([^`]+)`", text, re.MULTILINE)))
    row = {"id": name, "verdict": "a word", "link": "docs/reproductions/x.md"}
    row |= {"scale": "1M", "seeds": 5, "metric": "m"}
    twice = notes.filled(notes.filled(text, rows | {name: row}), rows | {name: row})
    assert twice.count(
        f"- `{name}`: **a word** ([x](reproductions/x.md)); 1M, 5 seeds, tested by `m`\n"
    ) == text.count(f"Claims: `{name}`")
    assert notes.filled(twice, rows) == notes.filled(text, rows)


def test_the_readme_counts_the_claims_as_the_ledger_does():
    notes = importlib.util.module_from_spec(NOTES)
    NOTES.loader.exec_module(notes)
    assert {*notes.WORDS} == {*claim_verdict.KINDS.values(), claim_verdict.IN_PART}
    text, rows = (ROOT / "README.md").read_text(encoding="utf-8"), notes.ledger()
    assert notes.counted(text, rows) == text, "python scripts/notes.py"
    name, row = next(iter(rows.items()))
    told = notes.counted(
        text, rows | {name: row | {"status": "too few seeds", "link": "docs/x.md", "metric": "measures.a.b"}}
    )
    assert "| **Too few seeds** | 1 | [x](docs/x.md) 1 |" in told
    assert f"- *too few seeds*: [{name}](docs/x.md) by `a.b`" in told
    assert sum(int(n) for n in re.findall(r"^\| \*\*.*? \| (\d+) \|", told, re.MULTILINE)) == len(rows)
