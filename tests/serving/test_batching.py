"""Dynamic batching: nothing lost, nothing mixed, one bad input fails alone."""

import asyncio
import threading

import pytest

from calibrant.serving.batching import Batcher, QueueFull


class Model:
    """Doubles numbers; if ``held``, it waits until it is let go."""

    def __init__(self, held=False):
        self.calls, self.go = [], threading.Event()
        if not held:
            self.go.set()

    def __call__(self, inputs, options):
        assert self.go.wait(10)
        self.calls.append((list(inputs), options))
        if "bad" in inputs:
            raise ValueError("bad")
        return [2 * one for one in inputs]


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited too long")


def test_what_waits_runs_together():
    async def scenario():
        model = Model(held=True)
        batcher = Batcher(model, most=64)
        tasks = [asyncio.create_task(batcher.submit([i])) for i in range(10)]
        await until(lambda: len(batcher) == 0 or len(batcher) == 9)
        model.go.set()
        assert await asyncio.gather(*tasks) == [[2 * i] for i in range(10)]
        assert [inputs for inputs, _ in model.calls] in (
            [list(range(10))],
            [[0], list(range(1, 10))],
        )

    asyncio.run(scenario())


@pytest.mark.parametrize("most", [1, 3, 7, 8, 9])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 25])
def test_sizes_that_straddle_a_batch(most, count):
    async def scenario():
        model = Model()
        sizes = []
        batcher = Batcher(model, most=most, observe=sizes.append)
        assert await batcher.submit(list(range(count))) == [2 * i for i in range(count)]
        assert sum(sizes) == count
        assert max(sizes) <= most
        assert [x for inputs, _ in model.calls for x in inputs] == list(range(count))

    asyncio.run(scenario())


def test_only_equal_options_share_a_batch_and_the_oldest_goes_first():
    async def scenario():
        model = Model(held=True)
        batcher = Batcher(model, most=4)
        first = asyncio.create_task(batcher.submit([0], "a"))
        await asyncio.sleep(0.05)  # The model is busy with it.
        others = [
            asyncio.create_task(batcher.submit([i], options))
            for i, options in enumerate("abaab", start=1)
        ]
        await until(lambda: len(batcher) == 5)
        model.go.set()
        await asyncio.gather(first, *others)
        assert model.calls == [([0], "a"), ([1, 3, 4], "a"), ([2, 5], "b")]

    asyncio.run(scenario())


def test_one_bad_input_fails_alone():
    async def scenario():
        model = Model(held=True)
        batcher = Batcher(model)
        tasks = [asyncio.create_task(batcher.submit([x])) for x in (1, "bad", 3)]
        await asyncio.sleep(0.05)
        model.go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0] == [2]
        assert isinstance(found[1], ValueError)
        assert found[2] == [6]

    asyncio.run(scenario())


def test_a_full_queue_refuses_and_recovers():
    async def scenario():
        model = Model(held=True)
        batcher = Batcher(model, limit=3)
        running = asyncio.create_task(batcher.submit([0]))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(batcher.submit([1, 2, 3]))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFull):
            await batcher.submit([4])
        model.go.set()
        assert await running == [0]
        assert await waiting == [2, 4, 6]
        assert await batcher.submit([4]) == [8]

    asyncio.run(scenario())


def test_a_request_that_gave_up_no_longer_runs():
    async def scenario():
        model = Model(held=True)
        batcher = Batcher(model)
        running = asyncio.create_task(batcher.submit([0]))
        await asyncio.sleep(0.05)
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(batcher.submit([1]), 0.05)
        model.go.set()
        await running
        assert await batcher.submit([2]) == [4]
        assert [inputs for inputs, _ in model.calls] == [[0], [2]]

    asyncio.run(scenario())
