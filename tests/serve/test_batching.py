"""Batches across requests, without HTTP and without models: a lane that says what it was given."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from transduce.serve.batching import Batcher, BatcherClosed, Piece


@dataclass(frozen=True)
class Echo:
    """Answers each piece with itself, in capitals, after a time in proportion to the batch."""

    name: str = ""
    budget: int = 100
    parallel: bool = True
    together: int = 1
    alone: bool = False
    seconds_per_piece: float = 0.0
    batches: list = field(default_factory=list, compare=False)
    gate: threading.Event | None = field(default=None, compare=False)

    def run(self, pieces, crowded):
        self.batches.append((list(pieces), crowded))
        if self.gate is not None:
            assert self.gate.wait(10)
        time.sleep(self.seconds_per_piece * len(pieces))
        if "bad" in pieces:
            raise ValueError("bad piece")
        return [piece.upper() for piece in pieces]

    def written(self, results):
        return sum(map(len, results))


def pieces(texts, tokens=10):
    return [Piece(text, tokens) for text in texts]


async def answers(batcher, lane, texts, tokens=10):
    found = {index: result async for index, result in batcher.stream(lane, pieces(texts, tokens))}
    return [found[i] for i in range(len(texts))]


async def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.002)


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario, 30))


def test_many_jobs_get_their_own_answers():
    async def scenario():
        batcher, rng = Batcher(slots=3), random.Random(0)
        lanes = [Echo(name) for name in "ab"]

        async def client(n):
            await asyncio.sleep(rng.random() / 20)
            texts = [f"{n}-{i}" for i in range(rng.randint(0, 12))]
            assert await answers(batcher, lanes[n % 2], texts, rng.randint(1, 30)) == [
                text.upper() for text in texts
            ]

        await asyncio.gather(*(client(n) for n in range(300)))
        assert (batcher.waiting_pieces, batcher.waiting_tokens, batcher.running_tokens) == (0, 0, 0)
        for lane in lanes:
            sent = [piece for batch, _ in lane.batches for piece in batch]
            assert len(sent) == len(set(sent))
            assert max(len(batch) for batch, _ in lane.batches) > 1

    run(scenario())


def test_a_lone_job_starts_at_once_on_all_threads():
    async def scenario():
        lane = Echo()
        batcher = Batcher(slots=2, window_seconds=5.0)
        begun = time.monotonic()
        for _ in range(3):
            assert await answers(batcher, lane, ["a"]) == ["A"]
        assert time.monotonic() - begun < 2.0
        assert not lane.batches[0][1]

    run(scenario())


def test_threads_that_wait_for_each_other_are_noticed():
    async def scenario():
        class Busy(Echo):
            def run(self, given, crowded):
                self.batches.append(crowded)
                time.sleep(0.002 if crowded or len(self.batches) == 1 else 0.2)
                return given

        lane = Busy()
        batcher = Batcher(slots=2)
        for _ in range(6):
            await answers(batcher, lane, ["a"])
        assert lane.batches == [False, False, True, True, True, True]

    run(scenario())


def test_a_long_answer_is_work_and_no_sign_of_waiting():
    async def scenario():
        class Talkative(Echo):
            def run(self, given, crowded):
                self.batches.append(crowded)
                long = len(self.batches) % 3 == 0
                time.sleep(0.2 if long else 0.002)
                return ["a" * 1000 if long else "a"]

        lane = Talkative()
        batcher = Batcher(slots=2)
        for _ in range(7):
            await answers(batcher, lane, ["a"], tokens=9)
        assert lane.batches == [False] * 7

    run(scenario())


def test_batches_are_larger_where_many_are_waiting_than_where_one_asks_for_much():
    async def scenario():
        lane = Echo(budget=10_000, seconds_per_piece=0.01)
        batcher = Batcher(slots=2)
        await answers(batcher, lane, ["a"] * 8)  # a thousand tokens a second and slot
        lane.batches.clear()
        await answers(batcher, lane, ["a"] * 150)
        one = [len(batch) for batch, _ in lane.batches]
        lane.batches.clear()
        await asyncio.gather(*(answers(batcher, lane, ["a"]) for _ in range(150)))
        many = [len(batch) for batch, _ in lane.batches]
        assert max(one) <= 35, "0.3 s: who comes meanwhile need not wait long"
        assert max(many) >= 60, "half of those who wait anyway"

    run(scenario())


def test_a_large_lone_job_keeps_all_slots_busy():
    async def scenario():
        lane = Echo(budget=10_000)
        batcher = Batcher(slots=2)
        await answers(batcher, lane, [str(i) for i in range(40)])
        assert [(len(batch), crowded) for batch, crowded in lane.batches] == [(20, True), (20, True)]

    run(scenario())


def test_others_wait_for_company_and_share_a_batch():
    async def scenario():
        lane = Echo(gate=threading.Event())
        batcher = Batcher(slots=2, window_seconds=0.05)
        first = asyncio.create_task(answers(batcher, lane, ["first"]))
        await until(lambda: lane.batches)
        others = [asyncio.create_task(answers(batcher, lane, [str(n)])) for n in range(4)]
        await asyncio.sleep(0.1)
        assert len(lane.batches) == 1, "a lone job has the machine to itself"
        lane.gate.set()
        await asyncio.gather(first, *others)
        sizes = [len(batch) for batch, _ in lane.batches]
        assert sizes[0] == 1
        assert sum(sizes[1:]) == 4
        assert len(sizes) <= 3
        assert all(crowded for _, crowded in lane.batches[1:])

    run(scenario())


def test_a_few_meet_in_one_batch_on_all_threads():
    async def scenario():
        lane = Echo(together=4, seconds_per_piece=0.005)
        batcher = Batcher(slots=2, window_seconds=1.0)

        async def client(name):
            for turn in range(6):
                assert await answers(batcher, lane, [f"{name}{turn}"]) == [f"{name}{turn}".upper()]

        await asyncio.gather(*map(client, "abcd"))
        assert [len(batch) for batch, _ in lane.batches] == [1, *[4] * 5, 3], "the first came alone"
        assert not any(crowded for _, crowded in lane.batches)

    run(scenario())


def test_a_job_of_a_few_pieces_is_one_batch_on_all_threads():
    async def scenario():
        lane = Echo(together=3)
        batcher = Batcher(slots=2)
        await answers(batcher, lane, ["a", "b", "c"], tokens=30)
        assert lane.batches == [(["a", "b", "c"], False)]
        lane.batches.clear()
        await answers(batcher, lane, ["a", "b", "c", "d"])
        assert [(len(batch), crowded) for batch, crowded in lane.batches] == [(2, True), (2, True)]

    run(scenario())


def test_padding_counts_and_nothing_is_over_the_budget():
    async def scenario():
        lane, rng = Echo(budget=60), random.Random(1)
        batcher = Batcher(slots=1)
        sizes = {f"{n}": rng.randint(1, 80) for n in range(200)}

        async def client(name):
            stream = batcher.stream(lane, [Piece(name, sizes[name])])
            assert [result async for _, result in stream] == [name]

        await asyncio.gather(*(client(name) for name in sizes))
        for batch, _ in lane.batches:
            assert len(batch) == 1 or len(batch) * max(sizes[name] for name in batch) <= 60

    run(scenario())


def test_a_thousand_texts_do_not_starve_one():
    async def scenario():
        lane = Echo(budget=200, seconds_per_piece=0.001)
        batcher = Batcher(slots=1)
        large = asyncio.create_task(answers(batcher, lane, [f"large {i}" for i in range(1000)]))
        await until(lambda: len(lane.batches) > 2)
        seen = len(lane.batches)
        small = [asyncio.create_task(answers(batcher, lane, [f"small {n}"])) for n in range(5)]
        await asyncio.gather(*small)
        assert len(lane.batches) - seen <= 3
        assert not large.done()
        assert len(await large) == 1000

    run(scenario())


def test_a_slow_model_gets_batches_that_are_soon_over():
    async def scenario():
        lane = Echo(budget=5000, seconds_per_piece=0.02)
        batcher = Batcher(slots=1)
        large = asyncio.create_task(answers(batcher, lane, [str(i) for i in range(100)], 10))
        await large
        large = asyncio.create_task(answers(batcher, lane, [str(i) for i in range(100)], 10))
        seen = len(lane.batches)
        await until(lambda: len(lane.batches) > seen)
        begun = time.monotonic()
        assert await answers(batcher, lane, ["small"]) == ["SMALL"]
        assert time.monotonic() - begun < 1.2, "two batches of 0.3 s"
        assert not large.done()
        await large
        assert max(len(batch) for batch, _ in lane.batches[2:]) <= 30

    run(scenario())


def test_lanes_take_turns_and_never_mix():
    async def scenario():
        lanes = [Echo(name, budget=40, seconds_per_piece=0.001) for name in "ab"]
        batcher = Batcher(slots=1)
        large = asyncio.create_task(answers(batcher, lanes[0], [f"a{i}" for i in range(300)]))
        await until(lambda: lanes[0].batches)
        assert await answers(batcher, lanes[1], ["b"]) == ["B"]
        assert not large.done()
        await large
        assert all(piece.startswith("a") for batch, _ in lanes[0].batches for piece in batch)
        assert [batch for batch, _ in lanes[1].batches] == [["b"]]

    run(scenario())


def test_who_goes_away_frees_the_place():
    async def scenario():
        lane = Echo(gate=threading.Event())
        batcher = Batcher(slots=1)
        running = asyncio.create_task(answers(batcher, lane, ["running"]))
        await until(lambda: lane.batches)
        going = asyncio.create_task(answers(batcher, lane, [f"going {i}" for i in range(50)]))
        staying = asyncio.create_task(answers(batcher, lane, ["staying"]))
        await until(lambda: batcher.waiting_pieces == 51)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        assert (batcher.waiting_pieces, batcher.waiting_tokens) == (1, 10)
        running.cancel()  # what runs is finished and dropped
        await asyncio.gather(running, return_exceptions=True)
        lane.gate.set()
        assert await staying == ["STAYING"]
        assert not any("going" in piece for batch, _ in lane.batches for piece in batch)
        await batcher.drain()
        assert batcher.running_tokens == 0

    run(scenario())


def test_an_error_is_nobody_elses():
    async def scenario():
        lane = Echo(gate=threading.Event())
        batcher = Batcher(slots=1)
        first = asyncio.create_task(answers(batcher, lane, ["first"]))
        await until(lambda: lane.batches)
        jobs = [["good", "fine"], ["bad"], ["also good"], ["x", "bad", "y"]]
        tasks = [asyncio.create_task(answers(batcher, lane, texts)) for texts in jobs]
        await until(lambda: batcher.waiting_pieces == 7)
        lane.gate.set()
        await first
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0] == ["GOOD", "FINE"]
        assert found[2] == ["ALSO GOOD"]
        for error in (found[1], found[3]):
            assert isinstance(error, ValueError)
        assert (batcher.waiting_pieces, batcher.waiting_tokens, batcher.running_tokens) == (0, 0, 0)
        assert await answers(batcher, lane, ["after"]) == ["AFTER"]

    run(scenario())


def test_a_lane_that_must_be_alone_is_always_cut_alike():
    async def scenario():
        lanes = [Echo(f"sample {n}", budget=50, alone=True) for n in range(3)]
        company = Echo()
        batcher = Batcher(slots=2)
        texts = [str(i) for i in range(12)]
        await asyncio.gather(
            *(answers(batcher, lane, texts) for lane in lanes),
            *(answers(batcher, company, [f"c{n}"]) for n in range(9)),
        )
        for lane in lanes:
            assert sorted((batch for batch, _ in lane.batches), key=lambda b: int(b[0])) == [
                texts[:5], texts[5:10], texts[10:]
            ]  # fmt: skip

    run(scenario())


def test_a_lane_that_needs_the_machine_has_it_to_itself():
    async def scenario():
        busy, most = 0, 0

        class Whole(Echo):
            def run(self, given, crowded):
                nonlocal busy, most
                busy += 1
                most = max(most, busy)
                time.sleep(0.005)
                busy -= 1
                return given

        lane = Whole("whole", parallel=False)
        other = Echo("other")
        batcher = Batcher(slots=3)
        await asyncio.gather(
            *(answers(batcher, lane, [f"{n}"]) for n in range(20)),
            *(answers(batcher, other, [f"{n}"]) for n in range(20)),
        )
        assert most == 1
        assert {crowded for _, crowded in lane.batches} <= {False}

    run(scenario())


def test_the_time_to_wait_is_in_proportion():
    async def scenario():
        lane = Echo(seconds_per_piece=0.002)
        batcher = Batcher(slots=1)
        await answers(batcher, lane, [str(i) for i in range(50)])
        per_piece = batcher.seconds_to_wait(10)
        assert 0.001 < per_piece < 0.05
        assert batcher.seconds_to_wait(1000) == pytest.approx(100 * per_piece)

    run(scenario())


def test_closing_tells_who_waits():
    async def scenario():
        lane = Echo(gate=threading.Event())
        batcher = Batcher(slots=1)
        tasks = [asyncio.create_task(answers(batcher, lane, [str(n)])) for n in range(3)]
        await until(lambda: batcher.waiting_pieces == 2)
        batcher.close()
        lane.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0] == ["0"]
        assert all(isinstance(error, BatcherClosed) for error in found[1:])
        with pytest.raises(BatcherClosed):
            await answers(batcher, lane, ["late"])

    run(scenario())


def test_a_lone_job_leaves_the_other_slots_free_where_threads_do_not_work_together():
    async def scenario():
        gate = threading.Event()
        lane = Echo(gate=gate, together=0)
        batcher = Batcher(slots=2)
        first = asyncio.create_task(answers(batcher, lane, ["a"]))
        await until(lambda: len(lane.batches) == 1)
        second = asyncio.create_task(answers(batcher, lane, ["b"]))
        await until(lambda: len(lane.batches) == 2)  # while the first is under way
        gate.set()
        assert await asyncio.gather(first, second) == [["A"], ["B"]]
        assert lane.batches == [(["a"], True), (["b"], True)]

    run(scenario())
