"""Run by torchrun on 2 processes: the gradients of every way of sharing a batch."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from algorithm_one import REGULARIZATION, WEIGHT, Classifier, Mirror, token_batch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from calibrant.methods import ErrorRegularization, HeadNoise
from calibrant.training import attach


def data_parallel():
    return DistributedDataParallel(Classifier())


def sharded_head():
    model, mesh = Classifier(), init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model.encoder, model.classifier, model):
        fully_shard(part, mesh=mesh)
    return model


def sharded_root():
    """The head belongs to the root's group, which stays gathered after the forward pass."""
    model, mesh = Classifier(), init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.encoder, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def share_of(batch, micro_batches):
    """This rank's half of the batch, in micro-batches."""
    rank = dist.get_rank()
    mine = [part.chunk(dist.get_world_size())[rank] for part in batch]
    return list(zip(*[part.chunk(micro_batches) for part in mine], strict=True))


def train(wrap, abstention, counted, micro_batches):
    """One optimizer step's gradients, gathered."""
    batch = token_batch()
    if not counted:
        batch[1][:] = 1  # Means of equal counts.
    model = wrap()
    parts = (ErrorRegularization(weight=REGULARIZATION, across_ranks=True),) if abstention else ()
    method = HeadNoise(weight=WEIGHT, noise=Mirror(), with_=parts)
    items = int((batch[1] != -100).sum())
    shares = share_of(batch, micro_batches)
    with attach(model, method) as hook:
        for index, (inputs, labels) in enumerate(shares):
            last = index == len(shares) - 1
            waiting = nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync()
            with waiting:
                more = {"num_items": items, "last": last} if counted else {}
                loss = method.loss(hook.step(model(inputs), labels, **more))
                (loss * dist.get_world_size() if counted else loss).backward()
    found = {}
    for name, parameter in getattr(model, "module", model).named_parameters():
        gradient = parameter.grad
        full = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        found[name] = full.clone()
    return found


def values(counted):
    """What all ranks together log of a statistic of the joined batch: the mean of their losses."""
    batch, method = token_batch(), ErrorRegularization(weight=1.0, across_ranks=True)
    (inputs, labels), model = share_of(batch, 1)[0], Classifier()
    more = {"num_items": int((batch[1] != -100).sum())} if counted else {}
    with attach(model, method) as hook:
        value = method.penalty(hook.step(model(inputs), labels, **more)).detach()
    value = value * dist.get_world_size() if counted else value
    dist.all_reduce(value)
    return value / dist.get_world_size()


def noise_streams():
    """The first noise that each rank draws."""
    method, model = HeadNoise(seed=5), Classifier()
    inputs, labels = token_batch()
    with attach(model, method) as hook:
        step = hook.step(model(inputs), labels)
    noise = method.noise.like(step, method.stream.generator(torch.device("cpu")))
    drawn = [torch.empty_like(noise) for _ in range(dist.get_world_size())]
    dist.all_gather(drawn, noise)
    return drawn


def main(folder):
    dist.init_process_group("gloo")
    results = {
        (wrap.__name__, abstention, counted, micro_batches): train(
            wrap, abstention, counted, micro_batches
        )
        for wrap in (data_parallel, sharded_head, sharded_root)
        for abstention in (False, True)
        for counted, micro_batches in ((False, 1), (True, 1), (True, 2))
    }
    found = {
        "gradients": results,
        "streams": noise_streams(),
        "values": {counted: values(counted) for counted in (False, True)},
    }
    if dist.get_rank() == 0:
        torch.save(found, Path(folder) / "results.pt")
    dist.barrier()
    # Gloo's threads sometimes abort the interpreter while it shuts down; all results are written.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
