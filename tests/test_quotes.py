import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from hires.quotes import quote_elements, quote_text, read_all_letters

read_all_letters()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("settings={a: [], b: [c.d=full]}", {"a": [], "b": ["c.d=full"]}),
        ("settings={a: [c=1, d=2 ]}", {"a": ["c=1", "d=2"]}),
        ("settings={a: [c=[1, 2],d={e: [3]}]}", {"a": ["c=[1, 2]", "d={e: [3]}"]}),
        ("settings={a: ['c=1', \"d=2\"]}", {"a": ["c=1", "d=2"]}),
        ("settings={a: [c='x, y', '~d']}", {"a": ["c='x, y'", "~d"]}),
        ("settings={a: [~d, ++e.f=1, optimizer=sgd]}", {"a": ["~d", "++e.f=1", "optimizer=sgd"]}),
        ("+settings.x=[a=b]", ["a=b"]),
        ("settings=null", None),
        ("settings={a: {b: 1}}", {"a": {"b": 1}}),
    ],
)
def test_hydra_reads_what_is_meant(text, value):
    assert OverridesParser.create().parse_override(quote_elements(text)).value() == value


@pytest.mark.parametrize(
    "text", ["settings={a: [b=1", "settings=[a='", "settings=[a=[", "settings=]]", "settings=["]
)
def test_what_is_not_closed_stays_so(text):
    assert quote_elements(text).replace("'", "").replace("\\", "") == text.replace("'", "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("source=/x/Stra\u00dfe S\u00fcd 09.jpg", "/x/Stra\u00dfe S\u00fcd 09.jpg"),
        ("data.root=/x/Bru\u0308cken", "/x/Bru\u0308cken"),  # as macOS writes it
        ("data.classes={gut: 0, Ri\u00df: 1}", {"gut": 0, "Ri\u00df": 1}),
        ("data.classes=[\u9053\u8def, '\u5ddd, a']", ["\u9053\u8def", "\u5ddd, a"]),
        ("source=/x/Site [01][05]/scan.*", "/x/Site [01][05]/scan.*"),
        ("data.images=[0-9]/*.png", "[0-9]/*.png"),
        ("data.images={a,b}/*.png", "{a,b}/*.png"),
        ("run=runs/a=b", "runs/a=b"),
        ("run=C:\\runs\\a(1)", "C:\\runs\\a(1)"),
        ("run=a(1)\\", "a(1)\\"),
        ('run=a(1)"b\\"c', 'a(1)"b\\"c'),
        ("run=it's", "it's"),
        ("+run=a(1)", "a(1)"),
    ],
)
def test_texts_need_no_quotes(text, value):
    assert OverridesParser.create().parse_override(quote_text(text)).value() == value


@pytest.mark.parametrize(
    "text",
    ["a=1", "a=", "a=1,2", "a=choice(1,2)", "a=[1, {b: c}]", "a=${b}", "a='b=c'", "a=null", "~a", "--cfg=job"]
    + ["a", "=1", "a=[1,2", "a={b: 1", "a=${b", 'a="b', "a b=1)"],
)
def test_what_is_read_or_broken_stays_as_it_is(text):
    assert quote_text(text) == text


def test_several_values_with_letters_beyond_ascii_are_swept_over():
    sweep = OverridesParser.create().parse_override("a=\u00fc,b")
    assert list(sweep.sweep_string_iterator()) == ["\u00fc", "b"]
