"""What is done to a figure before it is kept."""

from lab.commands._picture import smaller

MARKS = b"""<g clip-path="url(#p1)">
 <use xlink:href="#m" x="1.23456" y="2" style="fill: #0072b2"/>
 <use xlink:href="#m" x="3.98765" y="2" style="fill: %s"/>
</g>"""


def test_marks_in_one_style_say_it_once():
    group = b"""<g clip-path="url(#p1)" style="fill: #0072b2">
 <use xlink:href="#m" x="1.2" y="2"/>
 <use xlink:href="#m" x="3.9" y="2"/>
</g>"""
    assert smaller(MARKS % b"#0072b2") == group
    assert smaller(MARKS % b"#000000").count(b"style=") == 2
    assert smaller(MARKS % b"#0072b2" + MARKS % b"#0072b2") == 2 * group
