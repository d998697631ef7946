"""Batches across requests: what waits goes through the model together, and everybody gets a turn.

In:  jobs, each some pieces of one request and the lane that they go through. Out: each piece's result,
     as soon as it is there.
Does not know: HTTP, models, texts; a lane runs the pieces.

- A job that comes alone is run at once. Where several were here a moment ago, a batch waits a few
  milliseconds for them, so that those whom one batch has answered can meet in the next.
- A few pieces are run on all threads where that pays (`pace.py`). Else each batch has a slot (a core) of
  its own.
- Turns go round: a batch takes a share of tokens from each job, and as much in all as takes a fraction of
  a second, so that a thousand texts cannot starve one sentence. Jobs meet in a batch only if their lanes
  are equal.
- What a job no longer wants (`stream` was closed) leaves the queue; what runs is finished and dropped.
- A batch that fails is run again job by job, so that nobody gets another's error.

All methods are called in the event loop's thread; only `Lane.run` is called in others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from transduce.serve.pace import Crowd, Pace

__all__ = ["BatchTold", "Batcher", "BatcherClosed", "Lane", "Piece"]

P = TypeVar("P")
R = TypeVar("R", covariant=True)

_SHARE = 96  # tokens that a job puts into a batch before the next job has its turn
_BATCH_SECONDS = 0.3  # that a batch should take at most: who comes meanwhile waits for its end
_MOST_SECONDS = 1.0  # where many are waiting anyway, and large batches shorten it for all of them
_MANY = 8  # jobs
_MEMORY = 0.2  # weight of the newest batch in the average speed


class BatcherClosed(Exception):  # noqa: N818 -- it is no error of anybody's
    """What waits is not done any more."""


class Lane(Hashable, Protocol[P, R]):
    """What pieces go through; pieces of equal lanes may be run together, in any company."""

    @property
    def budget(self) -> int:
        """Most tokens, padding counted, of a batch."""

    @property
    def parallel(self) -> bool:
        """Whether each batch can have a thread of its own; else one batch is run at a time."""

    @property
    def together(self) -> int:
        """How many pieces at once its threads had better work on together; 0: none, not even one."""

    @property
    def alone(self) -> bool:
        """Whether results may depend on the company, so that each job is cut by itself, always alike."""

    def run(self, pieces: Sequence[P], crowded: bool) -> Sequence[R]:
        """The pieces' results; `crowded` if other batches are under way, so that threads are scarce."""

    def written(self, results: Sequence[Any]) -> int:
        """Tokens in what `run` gave: with those that were read, the work that it took."""


@dataclass(frozen=True)
class Piece(Generic[P]):
    """The smallest part of a job."""

    content: P
    tokens: int
    """With the end symbol."""


@dataclass(frozen=True)
class BatchTold:
    """What the outside is told about a batch, when it is done."""

    pieces: int
    tokens: int
    jobs: int
    seconds: float


@dataclass(eq=False)
class _Job:
    lane: Any
    waiting: deque[tuple[int, Piece[Any]]]
    left: int
    """Pieces that are not answered."""
    since: float
    answers: asyncio.Queue[list[tuple[int, Any]] | BaseException] = field(default_factory=asyncio.Queue)
    solo: bool = False
    """One of its batches failed: nothing of it shares a batch any more."""
    gone: bool = False


_Batch = list[tuple[_Job, int, Piece[Any]]]


class Batcher:
    """The queue before the models of one machine."""

    def __init__(
        self,
        *,
        slots: int,
        window_seconds: float = 0.003,
        told: Callable[[BatchTold], None] = lambda _: None,
    ) -> None:
        """Begin empty.

        Args:
            slots: batches under way at once: cores.
            window_seconds: how long a batch waits for company, while others are under way.
            told: called after each batch.
        """
        self._slots, self._window, self._told = slots, window_seconds, told
        self._pool = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="batch")
        self._turns: deque[_Job] = deque()
        self._running: set[asyncio.Future[Any]] = set()
        self._exclusive = self._closed = False
        self._present: set[_Job] = set()
        self._crowd = Crowd()
        self._freed = float("-inf")
        """When a slot was last freed."""
        self._timer: asyncio.TimerHandle | None = None
        self._speed = self._slot_speed = 0.0
        """Tokens a second of late: of all slots, and of one."""
        self._pace = Pace()
        self.waiting_pieces = self.waiting_tokens = self.running_tokens = 0

    async def stream(
        self, lane: Lane[P, R], pieces: Sequence[Piece[P]], deadline: float | None = None
    ) -> AsyncGenerator[tuple[int, R], None]:
        """Yield each piece's number and result as it is ready; close it to drop what has not started.

        Args:
            lane: what they go through.
            pieces: of one request.
            deadline: by `time.monotonic`.

        Raises:
            TimeoutError: it was not done by then.
            BatcherClosed: the queue was closed.
            Exception: what the lane raised for these pieces.
        """
        if self._closed:
            raise BatcherClosed
        job = _Job(lane, deque(enumerate(pieces)), len(pieces), time.monotonic())
        if job.waiting:
            self._enter(job)
        left = len(pieces)
        try:
            while left:
                async with asyncio.timeout_at(self._by_the_loop(deadline)):
                    answer = await job.answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                left -= len(answer)
                for pair in answer:
                    yield pair
        finally:
            self._leave(job)

    @staticmethod
    def _by_the_loop(deadline: float | None) -> float | None:
        """A time of `time.monotonic` by the loop's clock, which may be another."""
        return None if deadline is None else asyncio.get_running_loop().time() + deadline - time.monotonic()

    @property
    def waiting_jobs(self) -> int:
        """How many have pieces that wait."""
        return len(self._turns)

    def seconds_to_wait(self, tokens: int = 0) -> float:
        """An estimate, from the speed of late, of when what waits, and `tokens` more, will be done."""
        ahead = self.waiting_tokens + self.running_tokens + tokens
        return ahead / self._speed if self._speed else 1.0

    async def drain(self) -> None:
        """Wait until nothing waits and nothing runs."""
        while self._turns or self._running:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Drop what waits; what runs is finished in its thread."""
        self._closed = True
        for job in list(self._turns):
            job.answers.put_nowait(BatcherClosed())
            self._leave(job)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- The queue ------------------------------------------------------------------------------

    def _enter(self, job: _Job) -> None:
        self._present.add(job)
        self._crowd.note(len(self._present))
        self._turns.append(job)
        self._count(job, 1)
        self._pump()

    def _leave(self, job: _Job) -> None:
        job.gone = True
        self._present.discard(job)
        if job.waiting:
            self._count(job, -1)
            job.waiting.clear()
            self._turns.remove(job)
            self._pump()  # whoever stands behind may be of another kind

    def _count(self, job: _Job, sign: int) -> None:
        self.waiting_pieces += sign * len(job.waiting)
        self.waiting_tokens += sign * sum(piece.tokens for _, piece in job.waiting)

    # --- When to start ----------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start as many batches as may start now."""
        while self._turns and not self._exclusive and len(self._running) < self._slots:
            lane = self._turns[0].lane
            if self._running and not lane.parallel:
                return  # it needs the whole machine, and nobody overtakes it
            wait = 0.0 if self._is_calm() else self._seconds_to_company(lane)
            if wait > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._timer_is_over)
                return
            together = self._are_few(lane) and self._pace.together
            self._start(self._take(lane, whole=together), exclusive=together or not lane.parallel)

    def _timer_is_over(self) -> None:
        self._timer = None
        self._pump()

    def _is_calm(self) -> bool:
        """Whether there is one job, and have not been two at once for a while."""
        return self._crowd.most <= 1 and not self._running

    def _are_few(self, lane: Lane[Any, Any]) -> bool:
        """Whether threads had better work together on what waits, and nobody needs one of them."""
        return not self._running and max(self.waiting_pieces, self._crowd.most) <= lane.together

    def _seconds_to_company(self, lane: Lane[Any, Any]) -> float:
        """How long to wait for more: not at all if as many are here as were of late.

        Those whom the last batch has answered need a moment to ask again.
        """
        here = len(self._present) >= self._crowd.most
        if here or lane.alone or self.waiting_tokens >= lane.budget:
            return 0.0
        oldest = min(job.since for job in self._turns)
        return max(oldest, self._freed) + self._window - time.monotonic()

    # --- What to take -----------------------------------------------------------------------------

    def _take(self, lane: Lane[Any, Any], *, whole: bool) -> _Batch:
        """The next batch: a share of each job whose lane is equal to the first one's, or the `whole`."""
        first = self._turns[0]
        if lane.alone or first.solo:
            jobs, budget, share = [first], lane.budget, lane.budget
        else:
            jobs = [job for job in self._turns if job.lane == lane and not job.solo]
            budget, share = lane.budget if whole else self._budget(lane, len(jobs)), _SHARE
        batch: _Batch = []
        widest = 0
        turn = deque(jobs)
        while turn:
            job = turn.popleft()
            given = 0
            while job.waiting and given < share:
                index, piece = job.waiting[0]
                wider = max(widest, piece.tokens)
                if batch and wider * (len(batch) + 1) > budget:
                    turn.clear()
                    break
                job.waiting.popleft()
                batch.append((job, index, piece))
                widest, given = wider, given + piece.tokens
            else:
                if job.waiting:
                    turn.append(job)
        self._turn_round(batch)
        return batch

    def _budget(self, lane: Lane[Any, Any], jobs: int) -> int:
        """Most tokens of the next batch: what is soon over, and leaves their part to the other slots."""
        most = lane.budget
        if lane.parallel:
            most = min(most, -(-(self.waiting_tokens + self.running_tokens) // self._slots))
        if self._slot_speed:
            seconds = min(_MOST_SECONDS, _BATCH_SECONDS * max(1.0, jobs / _MANY))
            most = min(most, max(_SHARE, int(self._slot_speed * seconds)))
        return most

    def _turn_round(self, batch: _Batch) -> None:
        """Jobs that gave something go to the end, or are over."""
        tokens = sum(piece.tokens for _, _, piece in batch)
        self.waiting_pieces -= len(batch)
        self.waiting_tokens -= tokens
        self.running_tokens += tokens
        gave = dict.fromkeys(job for job, _, _ in batch)
        for job in gave:
            job.since = float("-inf")  # its rest need not wait for company again
        rest = [job for job in self._turns if job not in gave]
        self._turns = deque([*rest, *(job for job in gave if job.waiting)])

    # --- Running ----------------------------------------------------------------------------------

    def _start(self, batch: _Batch, *, exclusive: bool) -> None:
        self._exclusive = exclusive
        lane = batch[0][0].lane
        contents = [piece.content for _, _, piece in batch]
        loop = asyncio.get_running_loop()
        begun = time.monotonic()
        running = loop.run_in_executor(self._pool, lane.run, contents, not exclusive)
        self._running.add(running)
        running.add_done_callback(lambda done: self._finish(done, batch, begun, exclusive))

    def _finish(
        self, done: asyncio.Future[Sequence[Any]], batch: _Batch, begun: float, exclusive: bool
    ) -> None:
        seconds = max(time.monotonic() - begun, 1e-6)
        self._running.discard(done)
        self._exclusive = False
        self._freed = time.monotonic()
        tokens = sum(piece.tokens for _, _, piece in batch)
        self.running_tokens -= tokens
        error = BatcherClosed() if done.cancelled() else done.exception()
        if error is None:
            if batch[0][0].lane.parallel and (exclusive or len(batch) == 1):
                work = tokens + batch[0][0].lane.written(done.result())
                self._pace.note(together=exclusive, tokens=work, seconds=seconds)
            weight = _MEMORY if self._speed else 1.0
            speed = tokens / seconds
            self._slot_speed += weight * (speed - self._slot_speed)
            self._speed += weight * (speed * (1 + len(self._running)) - self._speed)
            self._deliver(batch, done.result())
        else:
            self._part(batch, error)
        self._told(BatchTold(len(batch), tokens, len({id(job) for job, _, _ in batch}), seconds))
        self._pump()

    def _deliver(self, batch: _Batch, results: Sequence[Any]) -> None:
        answers: dict[_Job, list[tuple[int, Any]]] = {}
        for (job, index, _), result in zip(batch, results, strict=True):
            answers.setdefault(job, []).append((index, result))
        for job, answer in answers.items():
            job.answers.put_nowait(answer)
            job.left -= len(answer)
            if not job.left:
                self._present.discard(job)

    def _part(self, batch: _Batch, error: BaseException) -> None:
        """Those whose batch failed: a job that was alone gets the error, others are run alone."""
        jobs = dict.fromkeys(job for job, _, _ in batch)
        if len(jobs) == 1:
            for job in jobs:
                job.answers.put_nowait(error)
                self._leave(job)
            return
        for job in jobs:
            if not job.gone:
                if not job.waiting:
                    self._turns.append(job)
                else:
                    self._count(job, -1)
                job.solo = True
                job.waiting.extendleft(
                    reversed([(index, piece) for owner, index, piece in batch if owner is job])
                )
                self._count(job, 1)
