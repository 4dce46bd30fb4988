"""Wrong command lines of sweeps, studies and what is kept of them: one line, status 1 or 2, nothing written."""

import shlex

import pytest

from cli.test_wrong_lines import SMALL, everything_below

MODE = "# @package _global_\nhydra: {mode: MULTIRUN}\n"

STUDY = """study:
  question: Does it matter?
  baseline: {name: layernorm, set: {norm: layernorm}}
  variants: {b: {set: {norm: rmsnorm}}}
  design: star
  seeds: {report: [1, 2]}
"""

STUDIES = {
    "torn": f"{MODE}study: [a\n",
    "typo": MODE + STUDY.replace("variants", "varients"),
    "choice": MODE + STUDY.replace("norm: rmsnorm", "norm: rmsnrom"),
    "key": MODE + STUDY.replace("norm: rmsnorm", "norm.epz: 1"),
    "value": MODE + STUDY.replace("norm: rmsnorm", "norm.eps: -1"),
    "twice": MODE + STUDY.replace("[1, 2]", "[1, 1]"),
    "name": MODE + STUDY.replace("{b:", "{layernorm:"),
    "modeless": f"# @package _global_\n{STUDY}",
    "packageless": f"hydra: {{mode: MULTIRUN}}\n{STUDY}",
    "empty": "",
}
"""Files of studies that are not right, by their names."""

MINE = "train --config-dir mine"

WRONG = [
    # what is kept of a run
    (
        "after",
        "train checkpoint.after=weigths",
        1,
        ["checkpoint.after 'weigths'", "weights, none, all", "'weights'?"],
    ),
    ("after-list", "train checkpoint.after=[weights]", 1, ["checkpoint.after ['weights']", "weights, none, all"]),
    ("after-null", "explain checkpoint.after=null", 1, ["checkpoint.after null", "weights, none, all"]),
    ("after-key", "train checkpoint.aftr=all", 1, ["unknown key 'checkpoint.aftr'", "'checkpoint.after'?"]),
    ("after-section", "train checkpoint=all", 1, ["checkpoint 'all' must be a section"]),
    ("after-alone", "train after=none", 1, ["unknown key 'after'", "did you mean 'checkpoint.after'?"]),
    ("after-several", "train checkpoint.after=weights,none", 1, ["has several values", "-m sweeps"]),
    ("gc-option", "gc --dry-rum", 2, ["'--dry-rum'", "did you mean '--dry-run'?"]),
    ("gc-run", "gc 12e4", 2, ["'12e4' is not an option or argument here"]),
    ("gc-value", "gc --weights=all", 2, ["--weights", "'all'"]),
    # a sweep as a whole
    ("on-error", "train -m on_error=contniue seed=1,2", 1, ["on_error 'contniue'", "retry:N", "'continue'?"]),
    ("on-error-n", "train -m on_error=retry seed=1,2", 1, ["on_error 'retry'", "retry:N with N from 1 to 99"]),
    ("on-error-zero", "train -m on_error=retry:0 seed=1,2", 1, ["on_error 'retry:0'", "N from 1 to 99"]),
    ("on-error-many", "train -m on_error=retry:100 seed=1", 1, ["on_error 'retry:100'", "N from 1 to 99"]),
    ("on-error-both", "train -m on_error=stop,continue seed=1", 1, ["on_error=stop,continue", "one on_error"]),
    ("on-error-run", "train on_error=stop", 1, ["on_error 'stop' belongs to a sweep", "lab train -m"]),
    ("on-error-explain", "explain on_error=stop", 1, ["on_error 'stop' belongs to a sweep"]),
    ("tier-run", "train tier=laptop", 1, ["tier 'laptop' belongs to a study", "study=NAME tier=laptop"]),
    ("tier-sweep", "train -m tier=laptop seed=1,2", 1, ["tier 'laptop' belongs to a study"]),
    ("tier-both", "train -m tier=laptop,gpu seed=1", 1, ["tier=laptop,gpu", "one tier"]),
    ("tier-list", "train tier=[a]", 1, ["tier ['a']", "text or null"]),
    ("mde-run", "train accept_mde=true", 1, ["accept_mde=true belongs to a study"]),
    ("mde-sweep", "train -m accept_mde=true seed=1,2", 1, ["accept_mde true belongs to a study"]),
    ("mde-word", "train accept_mde=maybe", 1, ["accept_mde 'maybe' must be true or false"]),
    ("no-value", "train -m seed=range(3,1)", 1, ["seed=range(3,1)", "comes to no value"]),
    ("glob-key", "train -m seed=glob(*)", 1, ["seed=glob(*)", "comes to no value"]),
    ("glob", "train -m norm=glob(x*)", 1, ["norm=glob(x*)", "fits no choice of norm", "rmsnorm"]),
    ("glob-run", "train -m norm=glob(*) norm.eps=-1", 1, ["norm.eps -1.0 must be > 0", "none was started"]),
    ("jobs", "train -m hydra/launcher=pool hydra.launcher.n_jobs=0 seed=1", 1, ["n_jobs 0 must be > 0"]),
    ("jobs-word", "train -m hydra/launcher=pool hydra.launcher.n_jobs=two seed=1", 1, ["n_jobs", "'two'"]),
    ("jobs-key", "train -m hydra/launcher=pool hydra.launcher.njobs=2 seed=1", 1, ["'hydra.launcher.njobs'"]),
    ("pool", "train -m hydra/launcher=pol seed=1", 1, ["hydra/launcher 'pol'", "did you mean 'pool'?"]),
    ("sweeper", "train -m hydra/sweeper=lba seed=1", 1, ["hydra/sweeper 'lba'", "lab"]),
    # studies
    (
        "study",
        "train study=nroms",
        1,
        ["study 'nroms'", "depth-width, dropout-one-epoch, ", "did you mean 'norms'?"],
    ),
    ("study-none", "train study=", 1, ["study ''", "depth-width, dropout-one-epoch, "]),
    ("study-list", "train study=[norms]", 1, ["study takes one choice", "depth-width, dropout-one-epoch, "]),
    ("study-both", "train -m study=norms,glu", 1, ["study=norms,glu", "one study"]),
    ("study-tier", "train study=norms tier=lapotp", 1, ["tier 'lapotp'", "did you mean 'laptop'?"]),
    ("study-seeds", "train study=norms seed=1,2", 1, ["'seed=1,2' has several values", "study=norms"]),
    ("study-choice", "train study=norms norm=rmsnrom", 1, ["norm 'rmsnrom'", "did you mean 'rmsnorm'?"]),
    ("study-key", "train study=norms study.nonsense=1", 1, ["unknown key 'study.nonsense'", "question"]),
    ("study-added", "train study=norms +study.sedes=1", 1, ["unknown key 'study.sedes'", "seeds"]),
    ("study-design", "train study=norms study.design=gird", 1, ["study.design 'gird'", "'grid'?"]),
    ("study-no-seed", "train study=norms study.seeds.report=[]", 1, ["study.seeds.report []"]),
    ("study-keyless", "train study.design=grid", 1, ["unknown key 'study.design'"]),
    ("study-off", "train study=norms ~study", 1, ["'~study'"]),
    ("study-error", "train study=norms on_error=retry:x", 1, ["on_error 'retry:x'", "retry:N"]),
    ("study-explain", "explain study=norms", 1, ["lab train study=NAME", "lab plan study=NAME"]),
    ("study-torn", f"{MINE} study=torn", 1, ["mine/study/torn.yaml"]),
    ("study-typo", f"{MINE} study=typo", 1, ["unknown key 'study.varients'", "'study.variants'?"]),
    ("study-wrong-choice", f"{MINE} study=choice", 1, ["norm 'rmsnrom'", "norm=rmsnrom seed=1; none was started"]),
    ("study-wrong-key", f"{MINE} study=key", 1, ["unknown key 'norm.epz'", "none was started"]),
    ("study-wrong-value", f"{MINE} study=value", 1, ["norm.eps -1.0 must be > 0", "none was started"]),
    ("study-twice", f"{MINE} study=twice", 1, ["study.seeds.report [1, 1] has 1 twice"]),
    ("study-name", f"{MINE} study=name", 1, ["study.variants.layernorm has the baseline's name"]),
    ("study-modeless", f"{MINE} study=modeless", 1, ["study 'modeless'", "hydra: {mode: MULTIRUN}"]),
    ("study-packageless", f"{MINE} study=packageless", 1, ["study 'packageless'", "# @package _global_"]),
    ("study-empty", f"{MINE} study=empty", 1, ["study 'empty'", "hydra: {mode: MULTIRUN}"]),
    ("study-nowhere", "train --config-dir /nowhere study=norms", 1, ["--config-dir '/nowhere' is not a folder"]),
    ("plan", "plan", 1, ["study=NAME is missing", "depth-width, dropout-one-epoch, "]),
    ("plan-study", "plan study=nroms", 1, ["study 'nroms'", "did you mean 'norms'?"]),
    ("plan-tier", "plan study=norms tier=x", 1, ["tier 'x' is not one of smoke, laptop, gpu"]),
    ("plan-workers", "plan study=norms --workers 0", 2, ["--workers 0"]),
    ("plan-word", "plan norms", 1, ["'norms' is not an override"]),
    # what was asked before
    ("status", "status nope", 1, ["study 'nope' is not there", "no studies in"]),
    ("status-none", "status", 1, ["no studies in", "makes one"]),
    ("status-two", "status a b", 2, ["'b' is not an option or argument here"]),
    ("status-format", "status --format xml", 2, ["--format 'xml'", "text, json"]),
    ("retry", "retry", 2, ["STUDY is missing"]),
    ("retry-study", "retry nope", 1, ["study 'nope' is not there"]),
    ("retry-both", "retry nope --failed --diverged", 2, ["--diverged", "--failed"]),
    ("retry-option", "retry --fialed nope", 2, ["'--fialed'", "did you mean '--failed'?"]),
    ("resume", "resume", 2, ["STUDY is missing"]),
    ("resume-study", "resume nope", 1, ["study 'nope' is not there"]),
    ("resume-two", "resume a b", 2, ["'b' is not an option or argument here"]),
]

FAST = {"gc-option", "on-error-run", "study-modeless", "status", "retry", "resume-study"}
"""Rows that between them go every way to a message: Hydra takes its time for each, so the others are slow."""


def row(case):
    name, line, status, words = case
    argv = shlex.split(line)
    if argv[0] in ("train", "explain"):
        argv[1:1] = SMALL.split()
    return pytest.param(argv, status, words, id=name, marks=[] if name in FAST else pytest.mark.slow)


@pytest.fixture
def studies(here):
    """A folder with the files of studies, beside the others in the current directory."""
    folder = here / "mine" / "study"
    folder.mkdir(parents=True)
    for name, text in STUDIES.items():
        (folder / f"{name}.yaml").write_text(text)
    return here


@pytest.mark.parametrize(("argv", "status", "words"), [row(case) for case in WRONG])
def test_one_line_says_what_is_wrong_and_nothing_is_written(argv, status, words, studies, outputs, run):
    before = everything_below(studies)
    found, out, err = run(*argv)
    assert (found, out) == (status, "")
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert err.startswith(f"lab {argv[0]}: ")
    for word in words:
        assert word in err
    assert "Traceback" not in err
    assert everything_below(studies) == before
    assert not outputs.exists()
