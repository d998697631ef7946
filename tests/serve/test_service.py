"""The service without HTTP: answers are the offline translation's, whatever the company (contract 3)."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
import time
from contextlib import asynccontextmanager

import pytest

import transduce
from served_models import WORDS, write_model, write_torch_model
from transduce.errors import DataError, ModelError, SearchError, ServeError
from transduce.serve.models import ServedModel
from transduce.serve.problems import Problem
from transduce.serve.service import TranslateOptions, TranslationService
from transduce.serve.settings import ServeSettings
from transduce.translate.protect import Protection
from transduce.translate.tuning import Layout, Tuning, machine

CPUS = {"threads": 2}


@asynccontextmanager
async def running(*models, **settings):
    service = TranslationService(ServeSettings(models=models, **{"watch_seconds": 0, **CPUS, **settings}))
    await service.start()
    await service.loading()
    try:
        yield service
    finally:
        await service.stop()


def run(scenario, seconds=60):
    asyncio.run(asyncio.wait_for(scenario, seconds))


async def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.005)


def sentences(count, seed, longest=8):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


def assert_same(found, expected):
    """Equal but for the last digits of scores."""
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        assert own.tokens == other.tokens
        assert own.text == other.text
        assert own.flags == other.flags
        assert own.score == pytest.approx(other.score, abs=1e-4)
        assert own.alignment == other.alignment
        assert [a.tokens for a in own.alternatives] == [a.tokens for a in other.alternatives]


@pytest.fixture(scope="module")
def offline(served):
    return transduce.load(served)


@pytest.fixture
def slow(monkeypatch):
    """Batches wait until they are let through; those under way are counted."""
    from transduce.serve.lanes import Lane

    gate, original = threading.Event(), Lane.run
    gate.entered = 0

    def run(self, pieces, crowded):
        gate.entered += 1
        assert gate.wait(30)
        return original(self, pieces, crowded)

    monkeypatch.setattr(Lane, "run", run)
    yield gate
    gate.set()


OPTIONS = [
    {},
    {"beam_size": 1},
    {"beam_size": 3, "n_best": 2},
    {"alignment": True},
    {"details": True, "length_penalty": "power", "alpha": 1.0},
]


def test_thousands_of_sentences_of_many_clients_are_the_offline_ones(served, offline):
    """Marked sentences from 48 clients at once, in five kinds of request: every id is the offline one."""
    work = [(n, OPTIONS[n % len(OPTIONS)], sentences(1 + n % 23, seed=n)) for n in range(180)]
    assert sum(len(texts) for _, _, texts in work) > 2000

    async def scenario():
        async with running(served) as service:
            places = asyncio.Semaphore(48)

            async def client(n, options, texts):
                async with places:
                    marked = [f"{text} {n}" for text in texts]
                    found = await service.translate(marked, options=TranslateOptions.of(**options))
                    return marked, options, found

            return await asyncio.gather(*(client(*one) for one in work))

    answers = asyncio.run(scenario())
    by_options = {}
    for marked, options, found in answers:
        sent, got = by_options.setdefault(str(options), (options, [], []))[1:]
        sent += marked
        got += found
    for options, sent, got in by_options.values():
        expected = offline.translate(sent, **{"details": False, **options})
        assert_same(got, expected)


def test_long_texts_are_cut_and_joined_as_offline(served, offline):
    texts = [
        ". ".join(sentences(12, seed=1)) + ".\n\n" + "! ".join(sentences(9, seed=2)),
        "  " + "light " * 90,
        "",
        " ",
        "看见开关灯" * 30,
        "x" * 400,
    ]

    async def scenario():
        async with running(served) as service:
            found = await service.translate(texts)
            assert_same(found, offline.translate(texts, details=False))
            assert "split" in found[0].flags
            assert await service.translate([]) == []

    run(scenario())


def test_prefixes_belong_to_their_texts(served, offline):
    texts = [*sentences(6, seed=3), ". ".join(sentences(12, seed=4))]
    prefixes = ["das Haus", "", "der", "", "", "die Tür", "das Licht"]

    async def scenario():
        async with running(served) as service:
            options = TranslateOptions.of(prefixes=tuple(prefixes))
            free, found = await asyncio.gather(
                service.translate(texts), service.translate(texts, options=options)
            )
            assert [t.text for t in free] == [t.text for t in offline.translate(texts)]
            assert [t.text for t in found] == [t.text for t in offline.translate(texts, prefixes=prefixes)]
            for translation, prefix in zip(found, prefixes, strict=True):
                assert translation.text.startswith(prefix)
            with pytest.raises(DataError, match="2 texts came with 1 prefixes"):
                await service.translate(["a", "b"], options=TranslateOptions.of(prefixes=("c",)))

    run(scenario())


def test_samples_are_drawn_alike_whatever_the_company(served, offline):
    texts = sentences(5, seed=5)
    drawn = {"method": "sample", "seed": 7, "n_best": 2, "temperature": 2.0}
    expected = [[t.text, *(a.text for a in t.alternatives)] for t in offline.translate(texts, **drawn)]

    async def scenario():
        async with running(served) as service:
            options = TranslateOptions.of(**drawn)
            alone = await service.translate(texts, options=options)
            *_, company = await asyncio.gather(
                *(service.translate(sentences(9, seed=n), options=options) for n in range(3)),
                *(service.translate(sentences(9, seed=n)) for n in range(9)),
                service.translate(texts, options=options),
            )
            for found in (alone, company):
                assert [[t.text, *(a.text for a in t.alternatives)] for t in found] == expected
            other = await service.translate(texts, options=TranslateOptions.of(**{**drawn, "seed": 8}))
            assert [t.text for t in other] != [t.text for t in alone]

    run(scenario())


def test_what_the_engine_has_not_is_refused_before_it_waits(served):
    async def scenario():
        async with running(served) as service:
            for options, words in [
                ({"glossary": {"light": "Licht"}}, "cannot be made to write a glossary's terms"),
                ({"protect": ("braces",)}, "use the torch engine"),
                ({"n_best": 5, "beam_size": 2}, "n_best \\(5\\) is larger than beam_size \\(2\\)"),
                ({"temperature": -1.0}, "temperature is -1.0"),
            ]:
                with pytest.raises(SearchError, match=words):
                    await service.translate(["light"], options=TranslateOptions.of(**options))
            with pytest.raises(SearchError, match="unknown search setting 'beam'"):
                TranslateOptions.of(beam=3)
            with pytest.raises(DataError, match="unknown kind of protected text 'urls'"):
                TranslateOptions.of(protect=("urls",))

    run(scenario())


def test_each_limit_is_told(served):
    async def scenario():
        limits = {"max_texts": 3, "max_text_characters": 20, "max_beam_size": 4, "max_glossary": 1}
        async with running(served, **limits) as service:
            for texts, options, status, name in [
                (["a"] * 4, {}, 413, "max_texts"),
                (["a" * 21], {}, 413, "max_text_characters"),
                (["a"], {"beam_size": 5}, 422, "max_beam_size"),
                (["a"], {"n_best": 5}, 422, "max_beam_size"),
                (["a"], {"glossary": {"a": "b", "c": "d"}}, 422, "max_glossary"),
            ]:
                with pytest.raises(Problem) as caught:
                    await service.translate(texts, options=TranslateOptions.of(**options))
                assert caught.value.status == status
                assert caught.value.extra == {name: limits[name]}
                assert str(limits[name]) in caught.value.detail

    run(scenario())


def test_a_full_queue_says_when_to_come_back(served, slow):
    async def scenario():
        async with running(served, max_texts=5, max_queue_texts=5, max_queue_tokens=1000) as service:
            first = asyncio.create_task(service.translate(["a"]))
            await until(lambda: slow.entered)
            waiting = asyncio.create_task(service.translate(["a"] * 5))
            await until(lambda: service._batcher.waiting_pieces == 5)
            with pytest.raises(Problem, match="5 texts are waiting and 1 came, but at most 5") as caught:
                await service.translate(["a"])
            assert caught.value.status == 429
            assert int(caught.value.headers["Retry-After"]) >= 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert service._batcher.waiting_pieces == 0
            again = asyncio.create_task(service.translate(["a"] * 5))
            await until(lambda: service._batcher.waiting_pieces == 5)
            slow.set()
            assert len(await again) == 5
            await first
        async with running(served, max_queue_tokens=1) as service:
            assert len(await service.translate(["an empty queue has room for all"])) == 1

    run(scenario())


def test_many_small_requests_fill_the_queue_too(served, slow):
    async def scenario():
        async with running(served, max_queue_requests=3) as service:
            first = asyncio.create_task(service.translate(["a"]))
            await until(lambda: slow.entered)
            waiting = [asyncio.create_task(service.translate(["a"])) for _ in range(3)]
            await until(lambda: service._batcher.waiting_jobs == 3)
            with pytest.raises(Problem, match="3 requests are waiting and 1 came, but at most 3") as caught:
                await service.translate(["a"])
            assert caught.value.status == 429
            assert caught.value.extra["max_queue_requests"] == 3
            assert caught.value.headers["Connection"] == "close"
            slow.set()
            assert len(await asyncio.gather(first, *waiting)) == 4

    run(scenario())


def test_what_takes_too_long_is_dropped(served, slow):
    async def scenario():
        async with running(served, request_seconds=0.2) as service:
            running_one = asyncio.create_task(service.translate(["a"]))
            await until(lambda: slow.entered)
            with pytest.raises(Problem, match=r"was not done within 0\.2 s") as caught:
                await service.translate(["b"] * 3)
            assert caught.value.status == 503
            assert service._batcher.waiting_pieces == 0
            with pytest.raises(Problem, match="was not done"):
                await running_one
            slow.set()
            assert len(await service.translate(["c"])) == 1

    run(scenario())


def test_a_stream_gives_each_text_when_it_is_ready(served, offline):
    texts = sentences(300, seed=6)

    async def scenario():
        async with running(served, batch_tokens=64) as service:
            stream = service.stream(texts)
            found = {}
            async for index, translation in stream:
                if not found:
                    assert service._batcher.waiting_pieces > 100, "the first came before the last had begun"
                found[index] = translation.text
            assert [found[i] for i in range(len(texts))] == [t.text for t in offline.translate(texts)]
            stream = service.stream(texts)
            await anext(stream)
            await stream.aclose()
            assert service._batcher.waiting_pieces == 0

    run(scenario())


def test_stopping_finishes_what_is_under_way(served, slow):
    async def scenario():
        service = TranslationService(ServeSettings(models=(served,), watch_seconds=0, **CPUS))
        await service.start()
        await service.loading()
        tasks = [asyncio.create_task(service.translate([word])) for word in WORDS[:5]]
        await until(lambda: slow.entered)
        stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(Problem, match="is being stopped"):
            await service.translate(["late"])
        assert not stopping.done()
        slow.set()
        assert all(len(found) == 1 for found in await asyncio.gather(*tasks))
        await stopping

    run(scenario())


def test_a_torch_model_writes_what_it_must_and_runs_alone(tmp_path):
    path = write_torch_model(tmp_path / "torch")
    offline = transduce.load(path)
    texts = [*sentences(9, seed=8), "hello {name}, you have %d new messages", "turn on the light, please"]
    needs = {"glossary": {"light": "Licht"}, "protect": ("braces", "printf")}

    async def scenario():
        async with running(path) as service:
            assert service.models()[0]["engine"] == "torch"
            options = TranslateOptions.of(**needs, prefixes=("das",) * len(texts))
            plain, held, prefixed, aligned = await asyncio.gather(
                service.translate(texts),
                service.translate(texts, options=TranslateOptions.of(**needs)),
                service.translate(texts, options=options),
                service.translate(texts, options=TranslateOptions.of(alignment=True)),
            )
            how = {"glossary": needs["glossary"], "protect": Protection(needs["protect"])}
            assert_same(plain, offline.translate(texts))
            assert_same(held, offline.translate(texts, **how))
            assert_same(prefixed, offline.translate(texts, prefixes=("das",) * len(texts), **how))
            assert_same(aligned, offline.translate(texts, alignment=True))
            assert "{name}" in held[9].text
            assert "Licht" in held[10].text
            assert not held[10].missing
            with pytest.raises(DataError, match="is blank on one side"):
                await service.translate(["a"], options=TranslateOptions.of(glossary={"a": " "}))

    run(scenario())


def test_the_servers_search_settings_hold_where_a_request_gives_none(served, offline):
    texts = sentences(20, seed=12)

    async def scenario():
        async with running(served, search=(("beam_size", 1), ("max_extra_len", 3))) as service:
            expected = offline.translate(texts, beam_size=1, max_extra_len=3)
            assert_same(await service.translate(texts), expected)
            own = TranslateOptions.of(beam_size=3, patience=1.0)
            expected = offline.translate(texts, beam_size=3, patience=1.0, max_extra_len=3)
            assert_same(await service.translate(texts, options=own), expected)
        with pytest.raises(SearchError, match="larger than beam_size"):
            async with running(served, search=(("n_best", 3), ("beam_size", 2))):
                pass

    run(scenario())


# --- Models -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    places = tmp_path_factory.mktemp("three")
    return [
        write_model(places / f"{source}-{target}", seed=n, source=source, target=target)
        for n, (source, target) in enumerate([("en", "de"), ("de", "en"), ("en", "zh-Hant")])
    ]


def test_languages_choose_the_model(three):
    async def scenario():
        async with running(*three) as service:
            texts = sentences(4, seed=1)
            for path, source, target in [
                (three[0], "en", "de"),
                (three[1], "de", None),
                (three[2], None, "zh-Hant"),
                (three[2], "EN", "zh_hant"),
                (three[0], "en-GB", "de-AT"),
            ]:
                found = await service.translate(texts, source=source, target=target)
                assert [t.text for t in found] == [t.text for t in transduce.load(path).translate(texts)]
            for source, target, status, words in [
                ("en", None, 422, "could be en → de, en → zh-Hant"),
                (None, None, 422, "name `source` and `target`"),
                ("fr", "de", 404, "no model translates fr → de; there are en → de, de → en, en → zh-Hant"),
                ("en", "zh-Hans", 404, "no model"),
                ("en", "zh", 404, "no model"),
            ]:
                with pytest.raises(Problem, match=words) as caught:
                    await service.translate(texts, source=source, target=target)
                assert caught.value.status == status

    run(scenario())


def test_models_that_cannot_be_served_together_or_at_all(three, tmp_path):
    twin = tmp_path / "twin"
    shutil.copytree(three[0], twin)
    with pytest.raises(ServeError, match=r"en-de and .*twin both translate en → de"):
        TranslationService(ServeSettings(models=(three[0], twin)))
    with pytest.raises(ModelError, match="there is no model directory"):
        TranslationService(ServeSettings(models=(tmp_path / "nowhere",)))
    (twin / "ct2" / "model.bin").write_bytes(b"\xff" * 100)

    async def scenario():
        with pytest.raises(ModelError, match="CTranslate2 cannot load"):
            async with running(twin):
                pass

    run(scenario())


def test_a_lazy_model_is_loaded_by_its_first_request_once(three, monkeypatch):
    loads = []
    original = ServedModel.load
    monkeypatch.setattr(ServedModel, "load", lambda self: loads.append(self.name) or original(self))

    async def scenario():
        async with running(*three, lazy=True) as service:
            assert service.ready
            assert {m["state"] for m in service.models()} == {"unloaded"}
            await asyncio.gather(*(service.translate(["a"], source="de") for _ in range(8)))
            assert loads == ["de-en"]
            assert [m["state"] for m in service.models()] == ["unloaded", "loaded", "unloaded"]

    run(scenario())


def test_a_lazy_model_that_cannot_be_loaded_is_tried_again_when_it_has_changed(served, tmp_path, caplog):
    path = tmp_path / "en-de"
    shutil.copytree(served, path)
    good = (path / "ct2" / "model.bin").read_bytes()
    (path / "ct2" / "model.bin").write_bytes(good[:500])

    async def scenario():
        async with running(path, lazy=True) as service:
            for _ in range(5):
                with pytest.raises(ModelError, match="CTranslate2 cannot load"):
                    await service.translate(["a"])
            assert caplog.text.count("cannot be loaded") == 1
            assert service.models()[0]["state"] == "failed"
            (path / "ct2" / "model.bin").write_bytes(good)
            assert len(await service.translate(["a"])) == 1
            assert service.models()[0]["state"] == "loaded"

    run(scenario())


@pytest.mark.parametrize(("compute_type", "copies"), [("float32", 2), ("int8", 1)])
def test_weights_are_counted_once_for_each_way_of_reading_them(served, compute_type, copies):
    """Eight-bit products take one thread for a lone sentence, as for many: no second copy."""
    model = ServedModel(served, ServeSettings(models=(served,), compute_type=compute_type, threads=2))
    size = (served / "ct2" / "model.bin").stat().st_size
    assert model.num_bytes() == 2 * size, "unknown until it is loaded: the more"
    assert model.load().num_bytes == copies * size
    assert len(model.load().parallel._workers._loaded) == copies


def test_weights_tuned_to_one_thread_for_one_sentence_are_counted_twice(served, tmp_path):
    path = tmp_path / "tuned"
    shutil.copytree(served, path)
    many, lone = Layout(workers=1, threads=2), Layout(workers=1, threads=1)
    Tuning(machine=machine(), threads=2, compute_type="float32", many=many, lone=lone).write(path / "ct2")
    model = ServedModel(path, ServeSettings(models=(path,), threads=2))
    loaded = model.load()
    assert set(loaded.parallel._workers._loaded) == {many, lone}
    assert loaded.num_bytes == 2 * (path / "ct2" / "model.bin").stat().st_size


def test_short_memory_unloads_what_rested_longest_and_nothing_in_use(three, slow):
    async def scenario():
        async with running(*three, lazy=True, memory=1) as service:  # a byte: always short
            slow.set()
            states = lambda: [m["state"] for m in service.models()]  # noqa: E731
            for source, target in [("en", "de"), ("de", "en"), ("en", "zh-Hant"), ("en", "de")]:
                assert len(await service.translate(["a"], source=source, target=target)) == 1
                assert states().count("loaded") == 1
            slow.clear()
            before = slow.entered
            busy = asyncio.create_task(service.translate(["a"], source="en", target="de"))
            await until(lambda: slow.entered > before)
            with pytest.raises(Problem, match="models in use leave no room") as caught:
                await service.translate(["a"], source="de", target="en")
            assert caught.value.status == 503
            slow.set()
            assert len(await busy) == 1
            assert len(await service.translate(["a"], source="de", target="en")) == 1
            assert states() == ["unloaded", "loaded", "unloaded"]

    run(scenario())


def replace(path, new):
    """Put another export into the place of one, as `transduce export` does: by renaming."""
    shutil.copytree(new / "ct2", path / "new")
    (path / "ct2").rename(path / "old")
    (path / "new").rename(path / "ct2")
    shutil.rmtree(path / "old")


def test_a_changed_directory_takes_its_place_and_drops_nothing(served, tmp_path):
    path, other = tmp_path / "en-de", tmp_path / "other"
    shutil.copytree(served, path)
    write_model(other, seed=9)
    texts = sentences(6, seed=7)
    old, new = ([t.text for t in transduce.load(p).translate(texts)] for p in (path, other))
    assert old != new

    async def scenario():
        async with running(path, watch_seconds=0.05) as service:
            answers, stop = [], False

            async def client():
                while not stop:
                    answers.append([t.text for t in await service.translate(texts)])

            clients = [asyncio.create_task(client()) for _ in range(3)]
            await until(lambda: len(answers) > 5)
            replace(path, other)
            await until(lambda: answers[-1] == new)
            stop = True
            await asyncio.gather(*clients)
            assert answers[0] == old
            assert all(answer in (old, new) for answer in answers)

    run(scenario())


def test_a_corrupt_model_leaves_the_old_one_serving_and_says_why(served, tmp_path, caplog):
    path = tmp_path / "en-de"
    shutil.copytree(served, path)
    expected = [t.text for t in transduce.load(path).translate(WORDS[:5])]

    async def scenario():
        async with running(path, watch_seconds=0.05) as service:
            good = (path / "ct2" / "model.bin").read_bytes()
            (path / "ct2" / "model.bin").write_bytes(good[:1000])
            await until(lambda: service.models()[0]["problem"])
            (model,) = service.models()
            assert model["state"] == "loaded"
            assert "CTranslate2 cannot load" in model["problem"]
            assert str(tmp_path) not in model["problem"]
            assert "goes on serving" in caplog.text
            assert [t.text for t in await service.translate(WORDS[:5])] == expected
            told = len(caplog.records)
            await asyncio.sleep(0.3)
            assert len(caplog.records) == told, "it is tried once, not for ever"
            (path / "ct2" / "model.bin").write_bytes(good)
            await until(lambda: not service.models()[0]["problem"])
            shutil.rmtree(path)
            await until(lambda: service.models()[0]["problem"])
            assert [t.text for t in await service.translate(WORDS[:5])] == expected

    run(scenario())


def test_a_loaded_model_is_ready_for_one_and_for_many(served, monkeypatch):
    """However busy the machine is while it loads: threads together on one sentence, and each on its own."""
    monkeypatch.setattr("transduce.translate.threads.os.getloadavg", lambda: (99.0, 99.0, 99.0))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    workers = ServedModel(served, ServeSettings(models=(served,))).load().translator.engine._workers
    assert workers.for_sentences(1).num_translators == 1
    assert workers.for_sentences(100).num_translators == 2
    workers.crowded = True
    assert workers.for_sentences(1).num_translators == 2
