"""Muon for the projection matrices, Adam for the rest (Jordan et al., 2024; Liu et al., 2025).

Adam treats a matrix as so many single numbers. Muon takes the momentum of the gradient as a matrix
and replaces its singular values by (about) ones, so that a step goes equally far in every direction
that the gradient knows. torch.optim.Muon (since 2.9) does the same one matrix at a time and in
bfloat16, which many CPUs only imitate; here equal shapes go through one chain of batched products,
on a CPU in the precision that the forward pass has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["MuonAdam", "orthogonalise"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest at 0 among those that end near 1 (Jordan et al.)
_ITERATIONS = 5
_EPSILON = 1e-7  # keeps a gradient of zeros zero


def orthogonalise(matrices: Float[Tensor, "count rows columns"]) -> Float[Tensor, "count rows columns"]:
    """U S' Vᵀ for every matrix U S Vᵀ, with S' between about 0.7 and 1.2: five Newton–Schulz iterations.

        X_0 = G / ‖G‖,  A = X Xᵀ,  X ← a X + (b A + c A²) X

    Singular values below about 1/500 of ‖G‖ (Frobenius) stay small. The work is done in the type of
    the argument, or that of `torch.autocast`, on the shorter side.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=_EPSILON)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT  # (count, shorter, shorter)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class MuonAdam(torch.optim.Optimizer):
    """Muon in the first group, AdamW in the second; one state a parameter.

        M ← μ M + (1 - μ) G                      momentum
        O = orthogonalise((1 - μ) G + μ M)       Nesterov's look ahead
        W ← (1 - η λ) W - η · scale · √max(rows, columns) · O

    With scale 0.2 the root mean square of an update is about Adam's, so that both share a learning
    rate η and a weight decay λ (Liu et al., 2025, section 2.2).
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        rest: Iterable[nn.Parameter],
        *,
        momentum: float,
        scale: float,
        weight_decay: float,
        adam: dict[str, Any],
        adam_rate_factor: float,
    ) -> None:
        """Begin without momentum and with a rate of 0.

        Args:
            matrices: two-dimensional; Muon's.
            rest: everything else; Adam's, without weight decay.
            momentum: μ.
            scale: of Muon's updates.
            weight_decay: λ, of the matrices.
            adam: keyword arguments of AdamW.
            adam_rate_factor: Adam's share of the learning rate.
        """
        groups = [
            {"params": list(matrices), "momentum": momentum, "scale": scale, "weight_decay": weight_decay},
            {"params": list(rest), "rate_factor": adam_rate_factor, "weight_decay": 0.0},
        ]
        super().__init__(groups, {"lr": 0.0})
        self._adam = torch.optim.AdamW(self.param_groups[1:], lr=0.0, **adam)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        del closure
        self._muon_step(self.param_groups[0])
        # Adam works on this optimizer's own group and state, so that a rate set here, or a state put
        # back from a checkpoint, is Adam's as well.
        self._adam.param_groups, self._adam.state = self.param_groups[1:], self.state
        self._adam.step()

    def _muon_step(self, group: dict[str, Any]) -> None:
        parameters = [p for p in group["params"] if p.grad is not None]
        if not parameters:
            return
        gradients = [p.grad for p in parameters]
        momenta = [self._momentum(p) for p in parameters]
        torch._foreach_lerp_(momenta, gradients, 1.0 - group["momentum"])
        updates = _orthogonal(torch._foreach_lerp(gradients, momenta, group["momentum"]))
        torch._foreach_mul_(parameters, 1.0 - group["lr"] * group["weight_decay"])
        for parameter, update in zip(parameters, updates, strict=True):
            parameter.add_(update, alpha=-group["lr"] * group["scale"] * max(parameter.shape) ** 0.5)

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum


def _orthogonal(matrices: Sequence[Tensor]) -> list[Tensor]:
    """`orthogonalise` for each; those of one shape, lying or standing, together."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, matrix in enumerate(matrices):
        by_shape.setdefault(tuple(sorted(matrix.shape)), []).append(index)
    results = list(matrices)
    for indices in by_shape.values():
        stack = torch.stack([_lying(matrices[index]) for index in indices])
        # Half precision is enough (Jordan et al.); every GPU that trains has units for it.
        done = orthogonalise(stack.bfloat16() if stack.is_cuda else stack).to(stack.dtype)
        for index, matrix in zip(indices, done, strict=True):
            results[index] = matrix.T if matrices[index].shape != matrix.shape else matrix
    return results


def _lying(matrix: Tensor) -> Tensor:
    return matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
