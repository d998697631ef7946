"""What waits to be fetched: unguessable ids, an end in time and in size."""

from __future__ import annotations

from transduce.serve.downloads import Downloads


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_what_was_put_is_got_until_it_expires():
    clock = Clock()
    downloads = Downloads(seconds=60, clock=clock)
    key = downloads.put(b"abc", "a.po", "text/x-po")
    assert len(key) == 43
    assert downloads.get(key)[:3] == (b"abc", "a.po", "text/x-po")
    assert downloads.put(b"abc", "a.po", "text/x-po") != key
    clock.now = 60
    assert downloads.get(key) is None
    assert len(downloads) == 0


def test_no_other_name_leads_anywhere():
    downloads = Downloads()
    downloads.put(b"abc", "a.po", "text/x-po")
    for key in ("", "..", "../a.po", "a.po", "/etc/passwd", "\0"):
        assert downloads.get(key) is None


def test_the_oldest_goes_when_memory_is_full():
    downloads = Downloads(most_bytes=10)
    keys = [downloads.put(bytes(4), "a", "b") for _ in range(4)]
    assert [downloads.get(key) is not None for key in keys] == [False, False, True, True]
    large = downloads.put(bytes(40), "a", "b")
    assert downloads.get(large) is not None
    assert len(downloads) == 1
