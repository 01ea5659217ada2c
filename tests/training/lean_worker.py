"""Run by torchrun on 2 processes: the lean loop, and whole training runs, that share each batch."""

import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from algorithm_one import Mirror
from tagger import Tagger, pieces, weights

from calibrant.errors import InputError
from calibrant.experiments import lean_engine
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.methods import ErrorRegularization, HeadNoise, create
from calibrant.training.loop import Loop, Schedule, Windows

# What is exact in several processes; "abstention" over the joined batch.
METHODS = {
    "cross_entropy": lambda: create("cross_entropy"),
    "focal": lambda: create("focal"),
    "head_noise": lambda: HeadNoise(noise=Mirror()),
    "abstention": lambda: ErrorRegularization(weight=0.5, across_ranks=True),
    "mmce": lambda: create("mmce", weight=2.0, across_ranks=True),
}


def make_loop(method, dropout=0.0, accumulate=1, dtype=torch.float64):
    """A loop over batches of 4, the last of each epoch a short one."""
    torch.manual_seed(0)
    model = Tagger().to(dtype)
    model.dropout.p = dropout
    schedule = Schedule(epochs=3, batch=4, learning_rate=1e-2, accumulate=accumulate)
    return model, Loop(model, method, Windows(pieces(38), "cpu"), schedule)


def run(name, accumulate):
    model, loop = make_loop(METHODS[name](), accumulate=accumulate)
    for _ in loop.steps():
        pass
    loss = loop.loss.clone()
    if dist.is_initialized():
        dist.all_reduce(loss)
    loop.close()
    return weights(model), loss


def resumed():
    """Weights of a run with dropout and noise, straight and from a state in its middle."""
    straight, loop = make_loop(create("head_noise"), dropout=0.3)
    for number in loop.steps():
        if number == 7:
            torch.save(loop.state(), f"state-{dist.get_rank()}.pt")
    loop.close()
    again, loop = make_loop(create("head_noise"), dropout=0.3)
    dist.barrier()
    loop.load(torch.load("state-0.pt"))  # As in a run: what the first process wrote.
    for _ in loop.steps():
        pass
    loop.close()
    return weights(straight), weights(again)


def everybody(value):
    found = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(found, value)
    return found


def dropped():
    """What dropout and noise draw first on each rank."""
    _, loop = make_loop(create("head_noise"))
    noise = loop.method.stream.generator(loop.device)
    return [everybody(torch.rand(64, generator=g)) for g in (loop.random, noise)]


def refused():
    messages = []
    for method, options in (("gamma_net_sece", {"holdout": True}), ("focal", {"graph": True})):
        windows = Windows(pieces(), "cpu")
        more = {key: windows if key == "holdout" else value for key, value in options.items()}
        try:
            Loop(Tagger(), create(method), windows, Schedule(batch=4), **more)
        except InputError as error:
            messages.append(str(error))
    try:
        make_loop(create("focal"), accumulate=4)
    except InputError as error:
        messages.append(str(error))
    return messages


def runs(recipe, folder):
    """Train one run straight through, and one that stops after an epoch and continues."""
    options = {"device": "cpu", "bootstrap": 0, "say": lambda _: None}
    train(recipe, folder / "straight", **options)
    end_epoch = lean_engine.RunWatch.end_epoch

    def stop(course):
        end_epoch(course)
        course.save()
        raise KeyboardInterrupt

    lean_engine.RunWatch.end_epoch = stop
    try:
        train(recipe, folder / "resumed", **options)
    except KeyboardInterrupt:
        lean_engine.RunWatch.end_epoch = end_epoch
    dist.barrier()
    train(recipe, folder / "resumed", **options)


def main(folder, settings):
    os.chdir(folder)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = {
        "runs": {(name, parts): run(name, parts) for name in METHODS for parts in (1, 2)},
        "resumed": resumed(),
        "drawn": dropped(),
        "refused": refused(),
    }
    same = everybody(results["runs"]["cross_entropy", 1][0])
    assert torch.equal(*same), "the ranks have come apart"
    runs(Recipe(**json.loads(settings)), Path(folder))
    if dist.get_rank() == 0:
        torch.save(results, "results.pt")
    dist.barrier()
    # Gloo's threads sometimes abort the interpreter while it shuts down; all results are written.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
