"""Text stays text, and numbers read as people write them."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.charts.numbers import count, counted, edge, interval, number, percent, points, signed
from calibrant.report.markup import Markup, join, tag, user_text

NAN, INF = float("nan"), float("inf")


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.attributes = [], "", {}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data):
        self.text += data


# HTML itself turns \r and \0 into others; they cannot become markup.
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=80)
plain = anything | st.text("<>&\"'/;!-= abt", min_size=3, max_size=20)


@given(plain, plain)
def test_any_text_comes_back_as_text(text, attribute):
    reader = Reader()
    reader.feed(tag("td", text, tag("b", text), data_tip=attribute))
    reader.close()
    assert reader.tags == ["td", "b"]
    assert reader.text == text + text
    assert reader.attributes == {"data-tip": attribute}


def test_markup_is_not_escaped_twice_and_none_is_nothing():
    inner = tag("b", "a & b")
    assert tag("p", inner, None) == "<p><b>a &amp; b</b></p>"
    assert join([inner, "<", None]) == "<b>a &amp; b</b>&lt;"
    assert tag("rect", x=1.04, y=2.0, class_="bar") == '<rect x="1" y="2" class="bar"/>'
    assert isinstance(join([]), Markup)


def test_long_names_are_cut_and_stay_reachable():
    text = user_text("<" * 300)
    assert text.count("&lt;") == 199 + 300
    assert text.startswith('<bdi title="&lt;')
    assert user_text("dog") == "<bdi>dog</bdi>"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (count(1234567.0), "1,234,567"),
        (percent(0.1234), "12.3 %"),
        (percent(0.0), "0 %"),
        (percent(0.00001), "0.001 %"),
        (percent(1 - 1e-6), "99.9999 %"),
        (percent(1 - 1e-16), "> 99.9999 %"),
        (percent(1e-12), "< 0.0001 %"),
        (counted(1, "class"), "1 class"),
        (counted(2000, "entity"), "2,000 entities"),
        (counted(0, "bin"), "0 bins"),
        (points(-0.00001), "0.0"),
        (points(0.5), "+50.0"),
        (signed(-INF, 2), "−∞"),
        (signed(INF, 2), "+∞"),
        (number(-0.5), "−0.5000"),
        (number(-INF), "−∞"),
        (number(NAN), "–"),
        (number(12345.678), "12,345.7"),
        (interval(0.1, 0.2), "[0.1000, 0.2000]"),
        (interval(0.1, None), None),
        (edge(1 / 15), "0.067"),
        (edge(1.0), "1"),
        (edge(0.0), "0"),
    ],
)
def test_numbers_for_people(made, expected):
    assert made == expected
