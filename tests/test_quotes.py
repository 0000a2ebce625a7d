import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from hires.quotes import quote_elements


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
