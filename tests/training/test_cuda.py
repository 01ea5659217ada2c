"""On a GPU: the same gradients, no wait for the device, and a step that a CUDA graph can hold."""

import pytest
import torch
from algorithm_one import REGULARIZATION, WEIGHT, Classifier, Mirror, algorithm_one, token_batch

from calibrant.methods import ErrorRegularization, FeatureMixture, HeadNoise, Shell
from calibrant.training import attach

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def on_gpu():
    inputs, labels = token_batch()
    return Classifier().cuda(), inputs.cuda(), labels.cuda()


def method_with(noise):
    return HeadNoise(
        weight=WEIGHT, noise=noise, with_=ErrorRegularization(weight=REGULARIZATION)
    ).cuda()


def test_equal_to_algorithm_one():
    model, inputs, labels = on_gpu()
    expected = algorithm_one(model, inputs, labels, abstention=True)
    model.zero_grad()
    method = method_with(Mirror())
    with attach(model, method) as hook:
        method.loss(hook.step(model(inputs), labels)).backward()
    for name, value in expected.items():
        torch.testing.assert_close(
            model.get_parameter(name).grad, value, rtol=1e-10, atol=1e-14, msg=name
        )


# torch says so when the mode is switched on; the mode itself is what is tested with.
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
@pytest.mark.parametrize("noise", [None, Shell(), FeatureMixture()])
def test_a_step_does_not_wait_for_the_device(noise):
    model, inputs, labels = on_gpu()
    method = method_with(noise)
    with attach(model, method) as hook:
        method.loss(hook.step(model(inputs), labels)).backward()  # First use may allocate and wait.
        torch.cuda.set_sync_debug_mode("error")
        try:
            method.loss(hook.step(model(inputs), labels)).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")


# Gradients are made on the side stream first, where torch requires a graph to be warmed up, and
# then on the capturing one, which waits for it.
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
def test_a_step_in_a_cuda_graph_draws_new_noise_each_time():
    model, inputs, labels = on_gpu()
    method = HeadNoise(weight=10.0)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(method.stream.generator(inputs.device))
    with attach(model, method) as hook:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model.zero_grad()
                method.loss(hook.step(model(inputs), labels)).backward()
        torch.cuda.current_stream().wait_stream(side)
        model.zero_grad()
        with torch.cuda.graph(graph):
            method.loss(hook.step(model(inputs), labels)).backward()
    seen = []
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad.zero_()
        graph.replay()
        seen.append([parameter.grad.clone() for parameter in model.parameters()])
    encoder, head = seen[0][0], seen[0][-1]
    torch.testing.assert_close(encoder, seen[1][0])
    assert not torch.equal(head, seen[1][-1])
