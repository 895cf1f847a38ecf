"""Probabilities are followed through whatever keeps their values, or some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime.torch_functions import JOINS, KEEPS
from gradlint.static.knowledge import torch_functions, torch_operations
from gradlint.static.knowledge.ops import Op

ACTIONS = torch.tensor([[1], [0], [1]])

FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "gather": lambda p: p.gather(1, ACTIONS),
    "a gather by name": lambda p: torch.gather(p, dim=1, index=ACTIONS),
    "a squeezed gather": lambda p: p.unsqueeze(1).squeeze(1).gather(1, ACTIONS),
    "take_along_dim": lambda p: torch.take_along_dim(p, ACTIONS, dim=1),
    "index_select": lambda p: p.index_select(1, torch.tensor([0])),
    "a mask": lambda p: p.masked_select(p > 0.1),
    "the transposed": lambda p: p.T,
    "what is repeated": lambda p: p.repeat(2, 1),
    "what is put together": lambda p: torch.cat([p, p.flip(0)]),
    "a stack": lambda p: torch.stack([row for row in p]),  # noqa: C416  the loop is what is tested
    "a detached one": lambda p: p.detach(),
    "in bfloat16": lambda p: p.bfloat16(),
    "changed in place": lambda p: p.clone().unsqueeze_(0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shaped", [True, False])
def test_some_of_them(form: str, shaped: bool) -> None:
    model = nn.Linear(4, 2)
    with gradlint.guard(model, on_finding="collect", select="GL306") as guard:
        out = model(torch.randn(3, 4))
        torch.log(FORMS[form](torch.softmax(out, dim=1) if shaped else out.exp()))
    assert not guard._failed
    assert [finding.code for finding in guard.findings] == (["GL306"] if shaped else [])


def test_what_is_put_together_with_something_else_is_not_known() -> None:
    with gradlint.guard(on_finding="collect", select="GL306") as guard:
        p = torch.softmax(torch.randn(3, 2), dim=1)
        torch.log(torch.cat([p, torch.ones(1, 2)]))
    assert not guard._failed
    assert guard.findings == []


#: What the linter follows, and the guard does not: no probabilities are to be found there, or no function is called.
OTHERS = (
    "alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout "
    "feature_dropout_ as_strided_ as_subclass as_tensor asarray cdouble cfloat chalf coalesce conj conj_physical "
    "conj_physical_ imag ipu meshgrid mtia positive real resolve_conj resolve_neg share_memory_ sparse_mask swapaxes_ "
    "swapdims_ to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc "
    "to_sparse_csr unsafe_chunk unsafe_split unsafe_split_with_sizes values view_as_complex view_as_real xpu"
)


def test_both_witnesses_follow_the_same() -> None:
    activations: dict[str, set[str]] = {}
    for table in (*vars(torch_operations).values(), *vars(torch_functions).values()):
        for name, op in table.items() if isinstance(table, dict) else ():
            if isinstance(op, Op):
                activations.setdefault(name.rpartition(".")[2], set()).add(op.activation)
    kept = {name for name, found in activations.items() if found == {"keeps"}}
    kept = {name for name in kept if hasattr(torch.Tensor, name) or hasattr(torch, name)}
    assert kept - set(OTHERS.split()) == set(f"{KEEPS} {JOINS}".split()) - {"__getitem__"}
