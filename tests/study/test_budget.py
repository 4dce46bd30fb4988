"""Which arms go where a study takes too long."""

from lab.study.budget import cut, without
from study.written import STAR, study

MANY = {name: {"set": {"norm": name}} for name in ("rmsnorm", "dyt", "none", "scalenorm")}
BASE = {"name": "layernorm", "set": {"norm": "layernorm"}}


def cut_to(minutes, *, last=(), **changes):
    one = study(
        variants=MANY, baseline=BASE, tiers={"laptop": {"lr": "shared"}, "x": {"lr": "tuned"}}, **changes
    ).at("laptop")
    names = ["layernorm", *MANY]
    return one, cut(one, limit_s=60 * minutes, seconds=lambda gone: 600 * len([*without(names, gone)]), last=last)


def test_arms_go_from_the_end_and_those_of_claims_last():
    _, rest = cut_to(35)
    assert (rest.dropped, rest.kept, rest.seconds, rest.fits) == (
        ("scalenorm", "none"),
        ("rmsnorm", "dyt"),
        1800,
        True,
    )
    assert rest.word("laptop") == "study.tiers.laptop.arms=[rmsnorm,dyt]"
    assert cut_to(35, last=["scalenorm", "none"])[1].dropped == ("dyt", "rmsnorm")
    assert cut_to(35, last=["scalenorm", "rmsnorm"])[1].dropped == ("none", "dyt")


def test_one_line_says_what_to_do():
    one, rest = cut_to(35)
    assert rest.text(one, seconds=3000, minutes=35, claims=["a.b"]) == (
        "about 50 min, more than 35 min: without scalenorm, none about 30 min; that takes arms of a.b: "
        "'study.tiers.laptop.arms=[rmsnorm,dyt]'"
    )
    one, rest = cut_to(50)
    assert rest.text(one, seconds=3000, minutes=50, claims=[]) == "about 50 min, within 50 min"


def test_a_variant_stays_and_so_do_seeds():
    one, rest = cut_to(5)
    assert (rest.kept, rest.fits) == (("rmsnorm",), False)
    assert "which is still more, and seeds are not to go: fewer steps" in rest.text(
        one, seconds=3000, minutes=5, claims=[]
    )


def test_a_contrast_that_is_written_out_stays():
    _, rest = cut_to(5, contrasts=["scalenorm - layernorm"])
    assert rest.kept == ("scalenorm",)


def test_pairs_go_with_their_variants():
    assert [*without(["0", "a", "b", "a+b"], ["a"])] == ["0", "b"]


def test_arms_of_axes_cannot_go():
    grid = study(
        {key: STAR[key] for key in ("question", "seeds", "lr")}, design="grid", axes={"norm": ["rmsnorm", "dyt"]}
    )
    rest = cut(grid, limit_s=1, seconds=lambda gone: 2.0, last=())
    assert (
        rest.text(grid, seconds=120, minutes=1, claims=[])
        == "about 2 min, more than 1 min, and no arm can be left out"
    )
