"""A person sees every character that a program reads."""

from hearth.approvals.characters import hidden, visible


def test_text_for_people_stays_as_it_is() -> None:
    assert visible("Grüße, 日本\n\tok") == "Grüße, 日本\n\tok"
    assert [*hidden("Grüße, 日本\n\tok")] == []


def test_what_moves_hides_or_commands_is_shown() -> None:
    text = "a\u202eb\u200bc\x1b[2Jd\re\u2028f"
    assert visible(text) == "a<U+202E>b<U+200B>c<U+001B>[2Jd<U+000D>e<U+2028>f"
    assert [*hidden("fine\nx\u202e")] == ["line 2 has the hidden character U+202E"]
