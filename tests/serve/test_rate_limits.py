"""Token buckets: a minute's worth at once, then evenly; bounded in memory."""

from __future__ import annotations

import pytest

from transduce.serve.rate_limits import TokenBuckets, network_of


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_burst_is_allowed_and_then_one_after_another(clock):
    buckets = TokenBuckets(clock=clock)
    assert [buckets.take("a", 30) for _ in range(30)] == [0.0] * 30
    assert buckets.take("a", 30) == pytest.approx(2.0)
    assert buckets.take("b", 30) == 0.0
    clock.now += 1.9
    assert buckets.take("a", 30) == pytest.approx(0.1)
    clock.now += 0.2
    assert buckets.take("a", 30) == 0.0
    clock.now += 3600
    assert [buckets.take("a", 30) for _ in range(31)].count(0.0) == 30


def test_without_a_limit_nothing_is_remembered():
    buckets = TokenBuckets()
    assert all(buckets.take("a", 0) == 0.0 for _ in range(100))
    assert len(buckets) == 0


def test_the_buckets_are_bounded_and_the_longest_unused_goes_first(clock):
    buckets = TokenBuckets(most=3, clock=clock)
    for who in "abca":
        buckets.take(who, 2)
    buckets.take("d", 2)  # b goes
    assert len(buckets) == 3
    assert buckets.take("a", 2) > 0
    assert [buckets.take("b", 2) for _ in range(2)] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_takes_from_its_network(address, network):
    assert network_of(address) == network
