"""Products of training: the same as nn.Linear's, and only where they are meant to be others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from transduce.model import projection
from transduce.model.projection import multiply, plain_products, project

here = pytest.mark.skipif(projection._kernel is None, reason="this processor has no AVX-512")


def inputs(shape, width, *, strided=False):
    x = torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2] if strided else torch.randn(*shape)
    return x.requires_grad_(), nn.Linear(shape[-1], width)


def value_and_gradients(x, linear, *, relu=False):
    out = project(linear, x, relu=relu)
    wanted = [t for t in (x, linear.weight, linear.bias) if t is not None and t.requires_grad]
    steps = torch.arange(out.numel()).view_as(out).sin()
    return out.detach(), torch.autograd.grad(out, wanted, steps)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("shape", [(1, 8), (7, 33), (2, 5, 64), (2, 3, 4, 16), (700, 96)])
def test_value_and_gradients_are_those_of_the_plain_product(shape, strided, relu):
    torch.manual_seed(1)
    x, linear = inputs(shape, 24, strided=strided)
    with plain_products():
        plain = value_and_gradients(x, linear, relu=relu)
    torch.testing.assert_close(value_and_gradients(x, linear, relu=relu), plain, rtol=1e-5, atol=1e-5)
    assert bool((plain[0] < 0).any()) is not relu


@pytest.mark.parametrize("frozen", [("x",), ("weight",), ("bias",), ("weight", "bias"), ("x", "weight")])
def test_gradients_of_what_is_not_frozen(frozen):
    x, linear = inputs((6, 10), 4)
    for name in frozen:
        (x if name == "x" else getattr(linear, name)).requires_grad_(requires_grad=False)
    with plain_products():
        plain = value_and_gradients(x, linear)
    torch.testing.assert_close(value_and_gradients(x, linear), plain, rtol=1e-5, atol=1e-5)


def test_without_a_bias():
    x = torch.randn(6, 10, requires_grad=True)
    linear = nn.Linear(10, 4, bias=False)
    with plain_products():
        plain = value_and_gradients(x, linear)
    torch.testing.assert_close(value_and_gradients(x, linear), plain, rtol=1e-5, atol=1e-5)


def test_multiply_takes_a_transposed_weight_and_no_rows():
    x, weight, bias = torch.randn(9, 6), torch.randn(6, 4), torch.randn(4)
    torch.testing.assert_close(multiply(x, weight.t(), bias), x @ weight + bias)
    torch.testing.assert_close(multiply(x, weight.t(), bias, relu=True), (x @ weight + bias).relu())
    assert multiply(x[:0], weight.t()).shape == (0, 4)


@here
def test_training_takes_the_other_product():
    x, linear = inputs((6, 10), 4)
    assert "Projection" in type(project(linear, x).grad_fn).__name__
    with plain_products():
        assert "Projection" not in type(project(linear, x).grad_fn).__name__
    (first,) = torch.autograd.grad(project(linear, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_switch_is_back_after_an_error():
    found = projection._kernel
    with pytest.raises(ZeroDivisionError), plain_products():
        raise ZeroDivisionError
    assert projection._kernel is found


@pytest.mark.parametrize("why", ["eval", "no_grad", "autocast", "float64"])
def test_elsewhere_the_module_itself_runs(why):
    """With whoever watches it: the lens hangs hooks on linear layers."""
    x, linear = inputs((6, 10), 4)
    seen = []
    linear.register_forward_hook(lambda *_: seen.append(why))
    linear.train(why != "eval")
    if why == "float64":
        x, linear = x.double(), linear.double()
    with torch.set_grad_enabled(why != "no_grad"), torch.autocast("cpu", enabled=why == "autocast"):
        torch.testing.assert_close(project(linear, x), linear(x), rtol=0, atol=0)
        torch.testing.assert_close(project(linear, x, relu=True), linear(x).relu(), rtol=0, atol=0)
    assert len(seen) == 4


@pytest.mark.parametrize("capability", ["AVX2", "DEFAULT"])
def test_other_processors_keep_torchs_product(monkeypatch, capability):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert projection._find_kernel() is None
