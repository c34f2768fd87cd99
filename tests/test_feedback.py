"""The feedback page: every sentence of the other reports, readable without colour, and nothing of a hand-in that acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from conftest import ROOT, Grade
from test_reports import HIDDEN_FAILED, NASTY, PASSED, record, result

from autograder.course import Settings
from autograder.reports import feedback, gradescope, words
from autograder.result import HandIn, Panel, Status, Where

TEMPLATES = ROOT / "autograder" / "reports" / "templates"
PANEL = Panel(
    name="weights", place="sequence 0", row_axis="reader", column_axis="source", rows=("0", "1"), columns=("0", "1"),
    expected=(("0.500", "0.500"), ("0.250", "0.750")), got=(("0.500", "0.500"), ("-0.250", "nan")),
    difference=(("", ""), ("-0.500", "nan")), expected_sums=("1.000", "1.000"), got_sums=("1.000", "nan"),
)  # fmt: skip
EDGES = Panel(
    name="what reads returns", row_axis="output", column_axis="input", rows=("0 The", "1 animal"),
    columns=("0 The", "1 animal"), expected=(("True", "False"), ("True", "True")),
    got=(("True", "True"), ("False", "True")), difference=(("", "≠"), ("≠", "")),
)  # fmt: skip


class Elements(HTMLParser):
    """The elements of a page with their attributes, the text, and whether every element is closed in its turn."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def test_a_page_says_what_the_terminal_says(grade: Grade) -> None:
    whole = grade("attention", ROOT / "reference" / "attention" / "examples" / "softmax_over_readers")
    page = Elements(feedback.page(whole, Settings()))
    said = " ".join(page.text.split())
    shown = words.for_student(whole)
    assert words.total_words(shown) in said
    for found in shown.results:
        assert f"{found.number} {found.title}".replace("`", "") in said
        for line in words.explain(found):
            assert " ".join(line.text.split()).replace("`", "") in said
    links = {attributes["href"] for tag, attributes in page.found if tag == "a"}
    ids = {attributes["id"] for _, attributes in page.found if "id" in attributes}
    assert {link for link in links if link} <= {f"#{name}" for name in ids}
    assert len(ids) == len([1 for _, attributes in page.found if "id" in attributes])
    assert "#c1.4.1" in links  # where to begin, and what blocks


def test_a_page_needs_nothing_beside_it_and_runs_nothing() -> None:
    page = feedback.page(record(result(panels=(PANEL, EDGES))), Settings())
    elements = Elements(page)
    assert not {tag for tag, _ in elements.found} & {"script", "link", "img", "iframe", "object", "form"}
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"(src|href)=\"(?!#)", page)
    policy = [a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.mark.parametrize("text", [NASTY, "</style><script>alert(1)</script>", '" onclick="x', "{{ 7 * 7 }}", "`<b>`"])
def test_text_of_a_hand_in_is_text(text: str) -> None:
    found = result(gap=text, cause=text, printed=text, where=Where(place=text, text=text))
    whole = record(found, notes=(text,), hand_in=HandIn(name=text, digest="d", files=(text,)))
    for page in (feedback.page(whole, Settings()), feedback.fragment(found)):
        assert not {tag for tag, _ in Elements(page).found} & {"script", "b"}
        assert "onclick=" not in re.sub(r">[^<]*<", "><", page)
        assert "\x1b" not in page
    if "{{" in text:
        assert "{{ 7 * 7 }}" in page


def test_the_tables_are_read_without_colour() -> None:
    page = Elements(feedback.panels((PANEL, EDGES)))
    assert page.text.count("✗ ") == 4  # two of each table of what was handed in
    assert "✗ −0.250" in page.text
    assert "✗ nan" in page.text
    assert page.text.count("Σ row") == 2
    assert "· ● true" not in page.text
    assert "● true, ○ false" in page.text
    assert page.text.count("●") == 3 + 3 + 1  # and the legend's
    scopes = [attributes.get("scope") for tag, attributes in page.found if tag == "th"]
    assert set(scopes) == {"col", "row"}
    captions = re.findall(r"<caption>(.*?)</caption>", str(feedback.panels((PANEL,))))
    assert captions == [words.EXPECTED, words.YOURS, words.DIFFERENCE]


def test_the_same_number_has_the_same_shade_in_both_tables() -> None:
    table = feedback.table(PANEL)
    assert table.expected[0][0].tint == table.yours[0][0].tint == "p4"
    assert (table.yours[1][0].tint, table.yours[1][1].tint) == ("n2", "")
    assert [[cell.wrong for cell in row] for row in table.yours] == [[False, False], [True, True]]


def test_gradescope_gets_the_tables_without_styles() -> None:
    output = gradescope.results(record(result(panels=(PANEL,))), Settings()).tests[0].output
    elements = Elements(output)
    assert {tag for tag, _ in elements.found} <= {
        "p", "strong", "code", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span",
    }  # fmt: skip
    assert not [attributes for _, attributes in elements.found if "style" in attributes]
    assert "✗ −0.250" in elements.text
    assert "softmax runs over the readers" in elements.text


def test_what_is_too_long_for_gradescope_stays_whole_as_text() -> None:
    wide = Panel(name="y", rows=("0",) * 80, columns=("0",) * 80, expected=(("1.000",) * 80,) * 80,
                 got=(("1.000",) * 80,) * 80, difference=(("",) * 80,) * 80)  # fmt: skip
    test = gradescope.results(record(result(panels=(wide,))), Settings()).tests[0]
    assert test.output_format == "text"
    assert "<" not in test.output
    assert "Cause  softmax runs over the readers" in test.output


def test_a_hidden_check_has_no_table_whatever_stands_in_the_record() -> None:
    leaked = HIDDEN_FAILED.model_copy(update={"panels": (PANEL,)})  # unchecked, as no grading makes it
    page = feedback.page(record(HIDDEN_FAILED).model_copy(update={"results": (leaked,)}), Settings())
    assert "0.750" not in page
    assert "<table" not in page


def test_an_unfinished_page_says_so_and_one_without_points_is_a_page() -> None:
    assert "The grading is not finished." in feedback.page(record(PASSED, complete=False), Settings())
    late = result(status=Status.NOT_RUN, score=0, max_score=0, gap="", cause="", where=None, read="")
    assert "0 / 0 points" in Elements(feedback.page(record(late), Settings())).text


# Contrast ---------------------------------------------------------------------------------------------------------------


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance (WCAG 2.2) of sRGB values in 0 … 255."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Contrast ratio (WCAG 2.2)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def schemes() -> list[dict[str, tuple[float, ...]]]:
    """The colours of the style sheet by name: for light, dark and paper."""
    css = (TEMPLATES / "feedback.css").read_text(encoding="utf-8")
    found: list[dict[str, tuple[float, ...]]] = []
    for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL):
        colours = {n: tuple(int(h[i : i + 2], 16) for i in (0, 2, 4)) for n, h in re.findall(r"--(\w+): #(\w{6});", block)}
        colours |= {n: tuple(int(c * 2, 16) for c in h) for n, h in re.findall(r"--(\w+): #(\w{3});", block)}
        colours |= {n: tuple(map(int, v.split(","))) for n, v in re.findall(r"--(plus|minus): ([\d, ]+);", block)}
        found.append({**(found[0] if found else {}), **colours})
    return found


@pytest.mark.parametrize("scheme", range(3))
def test_every_text_stands_out_from_what_it_stands_on(scheme: int) -> None:
    colours = schemes()[scheme]
    for text in ("ink", "soft", "good", "bad", "warn", "odd", "link"):
        for ground in ("paper", "raised"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    css = (TEMPLATES / "tables.css").read_text(encoding="utf-8")
    tints = re.findall(r"\.[pn]\d \{ background: rgba\(var\(--(plus|minus)\), ([\d.]+)\)", css)
    assert len(tints) == 2 * feedback.TINTS
    for name, share in tints:
        mixed = tuple(float(share) * a + (1 - float(share)) * b for a, b in zip(colours[name], colours["paper"]))
        assert contrast(colours["ink"], mixed) >= 4.5, (name, share)


def test_the_page_is_the_same_each_time() -> None:
    whole = record(result(panels=(PANEL,)), PASSED)
    assert feedback.page(whole, Settings()) == feedback.page(whole, Settings())
