"""The small programs that pin the linter down, executed under a guard: the same codes at the same lines."""

from __future__ import annotations

import contextlib
import runpy
import sys
from pathlib import Path

import pytest
import torch
from fixture_cases import cases_of

import gradlint
from gradlint.manual import witnesses
from gradlint.rule import all_rules

RUNTIME = {rule.code: rule.name.replace("-", "_") for rule in all_rules() if "runtime" in witnesses(rule)}

#: What running these programs does not show.
OTHERWISE = {
    "needless_retain_graph-silent, what an object or a caller asks for is retained": (
        "the guard sees what is asked for in this run, and that nothing needs it"
    ),
    "swapped_loss_arguments-what is divergent from plain data": "the guard does not know what data hold",
    "unregistered_modules-parameters that were moved before they were kept": (
        "the guard looks for parameters and layers in lists, and these hold neither"
    ),
    "optimizer_stale_params-workers that keep their gradients": "to the guard, a copy may be a network of its own",
    "missing_zero_grad-copies of gradients are handed over, and the originals are never cleared": (
        "the guard recognises gradients that are handed over where they are the same tensors"
    ),
    "missing_zero_grad-workers that are processes of a class of their own": "the guard watches its own process",
    "buffers_left_behind-evaluated once, at the end": "one look does not tell what changes",
    "inplace_on_residual-a shortcut that is computed after the branch": "the guard sees sums, not what is summed",
    "target_is_source-in every hundredth call of a method that nothing calls": "nothing calls the method",
    "target_is_source-followed softly, by a function of another file": "the guard sees no pairs",
    "target_is_source-handed on as both, to a class": "the guard sees no pairs",
    "target_is_source-the inner model of a module that averages": "the guard sees no pairs",
    "exhausted_parameters-a target network that follows in the first step only": "the guard sees no loops",
    "exhausted_parameters-several models chained, clipped by a function": "the guard does not know chains",
    "exhausted_parameters-named parameters that two loops go over": "the guard sees no loops",
    "exhausted_parameters-an average of the weights in a comprehension, in every epoch": "the guard sees no loops",
    "cut_loss_term-a spread that numpy computed": "the guard does not see what numpy computes",
    "cut_loss_term-weights that are summed as numbers": "the guard does not see what Python computes of numbers",
    "softmax_before_cross_entropy-silent: the other arm gives logits": "the program takes the arm with the softmax",
    "unregistered_modules-layers that a function gives are told where a class keeps them": (
        "the guard reports each list where it is made"
    ),
    "unregistered_modules-one layer, of as many as a number says": (
        "to the guard, a list of one layer hides it on purpose"
    ),
    "loss_requires_grad-the loss is made anew on one branch only": "with these numbers the branch is not taken",
    "missing_zero_grad-in a function, cleared only where a tensor says so": "here they are cleared each time",
    "data_mutation-a buffer that a product has saved": "the guard compares what is saved in its exact mode only",
    "loss_keeps_graph-the loss itself, beside which other things come": "nothing calls the function",
    "missing_zero_grad-the step of a class that nothing builds, with an optimizer that its own methods hand on": (
        "nothing calls the methods"
    ),
    "loss_keeps_graph-losses in records": "the guard looks into no objects",
    "loss_keeps_graph-what one of some recorders keeps": "the guard looks into no objects",
    "missing_zero_grad-sharpness-aware minimisation that keeps the gradients of either step": (
        "to the guard, what climbs is no step"
    ),
    "data_mutation-silent, a leaf that is filled before anything is computed from it": (
        "the guard does not know what was computed from a leaf"
    ),
    "parameter_data_mutation-leaves made by hand that are filled before anything is computed from them": (
        "to the guard, a leaf is trained once it has a gradient"
    ),
    "parameter_data_mutation-of several layers that are initialised in different branches the least nested is told": (
        "the guard reports the one that is executed first"
    ),
    "parameter_data_mutation-leaves that a module keeps": "to the guard, a leaf is trained once it has a gradient",
    "unregistered_parameter-a weight that is only moved": "to the guard, what another method sets, too, is no weight",
    "layer_in_forward-a list of layers made on the spot": "the guard reports what nothing is done with but to call it",
    "layer_in_forward-put into a container that is built for the call itself": (
        "the guard reports what nothing is done with but to call it"
    ),
    "eval_without_no_grad-embeddings and labels that a method gives, of which only the labels are read": (
        "the guard watches no other methods"
    ),
    "eval_without_no_grad-a layer without parameters called on the input": "one call may only look at a shape",
    "eval_without_no_grad-fields of an output that is an object": "the guard looks into tuples, lists and dicts",
    "nll_without_log_softmax-logits that a matrix mixes": "the guard knows logits by the layer that returned them",
    "eval_without_no_grad-a function that trains as well computes what an evaluation looks at": (
        "the guard reports the call of the model itself"
    ),
    "eval_without_no_grad-a module that evaluates its parts": "the guard reports the call of the model itself",
    "eval_without_no_grad-another way forward of a model in evaluation": "it sees calls of modules only",
    "eval_without_no_grad-neither eval() nor no_grad(), where a model is tested beside its training": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_without_no_grad-two phases that share the call of a model": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_without_no_grad-one function that trains and tests": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_without_no_grad-arrays that are only compared": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_mode_missing-labels by numpy, of the output and of an array": "the guard does not see what numpy computes",
    "eval_without_no_grad-images of a generator that is one of several, as the discriminator is": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_mode_missing-neither eval() nor no_grad()": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_mode_missing-silent as to the mode, dropout that was asked for after the last step": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_mode_missing-tested in the mode it was trained in": "one call may belong to the training",
    "eval_mode_missing-a single test after the training": "one call may belong to the training",
    "eval_mode_missing-weights that came out of a file": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_without_no_grad-weights that came out of a file were trained before": (
        "with gradients and in training mode, any call may belong to the training"
    ),
    "eval_without_no_grad-the inputs of a test require grad for nothing": (
        "to the guard, inputs that require grad are those of attacks"
    ),
    "eval_without_no_grad-the first in each loop of a function is told": "the guard tells of each",
    "eval_without_no_grad-silent, a module that builds its layers as it is called, frozen or unrecorded": (
        "the guard reports what nothing is done with but to call it"
    ),
    "parameter_data_mutation-an initializer that is given the data of a parameter": (
        "the guard does not see what initializers of torch are given"
    ),
    "parameter_data_mutation-a function that another one of its name replaces": "nothing calls the function",
    "unregistered_modules-a class that another one of its name replaces": "nothing builds the class",
    "eval_mode_missing-a model just loaded": "one call that is compared with nothing is no evaluation yet",
    "eval_mode_missing-some layers of a model that was trained": "what is compared with nothing is no evaluation",
    "eval_mode_missing-tested in training mode, which another test has saved and restored": (
        "to the guard, a mode that is restored was asked for"
    ),
    "numpy_on_grad-actions drawn by the output of a policy": "the error is raised in a compiled frame of numpy",
    "dropout_without_training-layer built in the forward pass": "in training mode, such a layer looks like any other",
    "dropout_without_training-built in the forward pass and told": "such a layer may be meant to drop",
    "module_requires_grad-a layer that freezes itself": "to the guard, an attribute of its own may mean anything",
    "dropout_without_training-silent, dropped in training where something else holds, too, or where it is asked for": (
        "the guard sees no condition around the call of a method"
    ),
    "loss_requires_grad-a new tensor that requires grad": "nothing tells the guard that a Variable is made",
    "missing_zero_grad-function of opaque arguments": "nothing calls the function",
    "train_mode_not_restored-unknown model validated in the middle of an epoch": "nothing calls the function",
    "missing_zero_grad-update by hand with numbers taken from the gradients": "the first gradients are zero",
    "data_mutation-where no caller comes to": "nothing comes there",
    "unregistered_parameter-random numbers as a weight": "the guard does not know where numbers come from",
    "unregistered_parameter-a plain tensor beside a buffer": "the guard does not know where numbers come from",
    "loss_under_no_grad-a leaf squared under no_grad": "the guard watches models and losses there, not every operation",
    "input_requires_grad-images and labels of a loader both": "the guard sees what modules are given, not functions",
    "missing_zero_grad-by hand in a function whose optimizer has done its work": "the optimizer may step yet",
    "missing_zero_grad-an agent that others build": "nothing builds the agent",
    "data_mutation-an input that is moved along its gradient": "to the guard, a leaf with a gradient is trained by it",
    "data_mutation-noise that is added to the input is moved along its gradient": (
        "to the guard, a leaf with a gradient is trained by it"
    ),
    "missing_zero_grad-parameters of a copy are given to the module for one call": "a step finds no gradients at all",
    "log_softmax_before_cross_entropy-outputs put into a tensor step by step": "parts are not followed",
    "log_softmax_before_cross_entropy-outputs put into an old variable step by step": "parts are not followed",
    "softmax_before_cross_entropy-some of the probabilities": "parts that a mask picks are not followed",
    "softmax_before_cross_entropy-averaged probabilities": "averages are not followed",
    "amp_misuse-the loss is for the subclasses to compute": "there are no subclasses",
    "missing_zero_grad-a count of batches until the step, and none clears": "nothing calls the functions",
    "missing_zero_grad-cleared in the first iteration only": "nothing calls the functions",
    "softmax_before_cross_entropy-a loss that normalises what it hands to its base": "nothing calls the loss",
    "softmax_before_cross_entropy-one of the models that can be chosen": "another one is chosen",
    "bce_without_sigmoid-a bias of its own that is added to the logits": (
        "the guard knows logits by the layer that returned them"
    ),
    "bce_without_sigmoid-logits in a sum": "the guard knows logits by the layer that returned them",
    "loss_requires_grad-mean of a list of numbers": "nothing tells the guard where the numbers come from",
    "input_requires_grad-a function that is handed on does not mention the input": "no backward pass is made",
    "input_requires_grad-batches cut out of data that requires grad": "the guard watches leaves, not views of them",
    "loss_keeps_graph-losses of an evaluation whose graphs nothing walks": "only walked graphs are watched",
    "loss_keeps_graph-kept by a closure now and then": "one call of step is too few to tell",
    "missing_zero_grad-a scaler that steps a given optimizer now and then": "nothing calls the functions",
    "loss_keeps_graph-losses whose graphs are retained for nothing": "what is retained might be walked again",
    "eval_without_no_grad-of several evaluations in a function the first is told": "the guard tells of each",
    "loss_keeps_graph-a moving average that may be moved to another device first": "buffers are not watched",
    "loss_keeps_graph-sums of terms by name, looked up or begun": "the guard knows what grows by a name in the source",
    "needless_retain_graph-the loss is computed in the function itself": "what `autograd.grad` retains is passed over",
    "parameter_data_mutation-initialisation by apply, behind layers of many other classes": "nothing builds the model",
    "parameter_data_mutation-a frozen copy of a model of which nothing is known": "frozen parameters are passed over",
    "parameter_data_mutation-initialisation of what subclasses will hold": "there are no subclasses",
    "parameter_data_mutation-what is computed from other parameters is none": (
        "the guard reports the computed weight as well, whose graph does not know of the change"
    ),
    "parameter_data_mutation-groups of an attribute, and of an optimizer without an initialiser": (
        "nothing builds the wrapper"
    ),
    "softmax_before_cross_entropy-a model of its own where none is given": "nothing calls the functions",
    "softmax_before_cross_entropy-model and training look at the same number, each in its way": (
        "nothing calls the functions"
    ),
    "softmax_before_cross_entropy-the number that a loop waits for is another one behind it": (
        "nothing calls the function"
    ),
    "unregistered_parameter-random numbers that meet what another module has made": (
        "the guard does not know where numbers come from"
    ),
}


#: the executable cases of the rules that the guard can see
CASES = {case.id: case for slug in sorted(RUNTIME.values()) for case in cases_of(slug) if not case.not_run}


@pytest.mark.parametrize("name", sorted(CASES.keys() - OTHERWISE.keys()))
def test_the_guard_sees_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    torch.manual_seed(1)
    raised = True
    with (
        contextlib.suppress(RuntimeError, TypeError),
        gradlint.guard(on_finding="collect", select=sorted(RUNTIME)) as guard,
    ):
        runpy.run_path(str(tmp_path / "main.py"), run_name="__main__")
        raised = False
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]  # a folder alone has no file
        if any(str(tmp_path) in str(place) for place in places):
            del sys.modules[name]
    found = {(Path(f.location.filename).name, f.location.row, f.code) for f in guard.findings}
    expected = {(Path(name).name, row, code) for name, row, code in case.marks if code in RUNTIME}
    assert found <= expected
    assert found == expected or (raised and found), "all of them, or those before the first error"
    assert not guard._failed


def test_exceptions_name_cases() -> None:
    assert OTHERWISE.keys() <= CASES.keys()
