"""A cache never exceeds its limit, and keeps the most recently used entries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_kokoro.synthesis.cache import Cache


def cache(limit: int) -> Cache[str, str]:
    return Cache(limit, lambda key, value: len(key) + len(value))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 500))))
def test_the_byte_count_is_that_of_the_entries(puts: list[tuple[str, int]]) -> None:
    kept, latest = cache(1000), dict[str, int]()
    for key, size in puts:
        kept.put(key, "x" * size)
        latest[key] = size
        assert kept.bytes <= 1000
    held = [key for key in latest if key in kept]
    assert kept.bytes == sum(200 + 1 + latest[key] for key in held)


def test_the_most_recently_used_entry_is_kept() -> None:
    kept = cache(2 * 202)
    kept.put("a", "1")
    kept.put("b", "2")
    assert kept.get("a") == "1"
    kept.put("c", "3")
    assert kept.get("b") is None
    assert (kept.get("a"), kept.get("c")) == ("1", "3")
    assert kept.statistics() == {"hits": 3, "misses": 1, "bytes": 404}


def test_a_value_above_the_limit_is_not_stored() -> None:
    kept = cache(300)
    kept.put("a", "1")
    kept.put("b", "x" * 300)
    assert "a" in kept
    assert "b" not in kept
