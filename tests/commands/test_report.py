import base64
import json

import pytest

from lab.cli import main
from lab.commands import report


def test_one_file_of_a_run(words, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", *words()])
    assert not end.value.code
    file = tmp_path / "report.html"
    assert report.main(["-o", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(file)
    text = file.read_text(encoding="utf-8")
    begin = text.index('id="curves">') + len('id="curves">')
    (one,) = json.loads(text[begin : text.index("</script>", begin)])["variants"]
    (seed,) = one["loss"]["seeds"]
    assert (seed["at"]["first"], len(base64.b64decode(seed["at"]["values"]))) == (1, 20 * 4)
    assert "What all runs share" in text


def test_no_runs(tmp_path, capsys):
    assert report.main([]) == 1
    assert "lab report: no runs in" in capsys.readouterr().err
