"""The torch table against torch itself: it is complete, and its names and signatures are those of torch."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gradlint.static.knowledge import torch_table as table

UNMODELLED_FUNCTIONS = {
    "settings of the library, not operations": """
        are_deterministic_algorithms_enabled autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        compiled_with_cxx11_abi get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype
        get_autocast_xla_dtype get_default_device get_default_dtype get_deterministic_debug_mode get_device_module
        get_file_path get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state init_num_threads
        initial_seed is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled is_autocast_cpu_enabled
        is_autocast_enabled is_autocast_ipu_enabled is_autocast_xla_enabled is_deterministic_algorithms_warn_only_enabled
        is_vulkan_available is_warn_always_enabled manual_seed prepare_multiprocessing_environment seed set_anomaly_enabled
        set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
        set_autocast_gpu_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype
        set_autocast_xla_enabled set_default_device set_default_dtype set_default_tensor_type set_deterministic_debug_mode
        set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads set_printoptions
        set_rng_state set_warn_always thread_safe_generator use_deterministic_algorithms
        profiler_allow_cudagraph_cupti_lazy_reinit_cuda12
    """,
    "they call what they are given: the interpreter follows the call": "compile cond fork vmap wait while_loop",
    "what comes out depends on a file": "load save import_ir_module import_ir_module_from_buffer to_dlpack",
    "kernels of one back end, not called by users": """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
        batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats choose_qparams_optimized
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu
        cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable empty_quantized fbgemm_linear_fp16_weight
        fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
        fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
        fused_moving_avg_obs_fake_quant max_pool1d_with_indices miopen_batch_norm miopen_convolution
        miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss
        miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution
        mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer native_batch_norm
        native_dropout native_group_norm native_layer_norm native_norm quantize_per_channel quantize_per_tensor
        quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm
        quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell
        quantized_rnn_tanh_cell embedding_bag
    """,
    "copying twins of views, for the functionalisation pass": """
        alias_copy as_strided_copy ccol_indices_copy col_indices_copy crow_indices_copy detach_copy diagonal_copy
        expand_copy indices_copy permute_copy row_indices_copy select_copy slice_copy slice_inverse split_copy
        split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy values_copy
        view_as_complex_copy view_as_real_copy view_copy
    """,
    "symbolic shapes": """
        sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not
        sym_sqrt sym_sum
    """,
    "the parser of TorchScript": """
        classproperty merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list
    """,
    "removed: they raise": "eig lstsq matrix_rank solve symeig",
    "sparse products that only raise, or that nobody uses": "hsmm hspmm saddmm",
    "other spellings of mm": "dsmm spmm",
}
UNMODELLED_FUNCTIONAL = {
    "imports and overload machinery of the module": """
        Optional assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary
        has_torch_function_variadic
    """,
}
UNMODELLED_METHODS = {
    "removed: they raise": "eig lstsq reinforce resize resize_as solve symeig volatile",
    "internal": "index module_load slice_inverse",
}
NOT_LAYERS = "Buffer Container LinearCrossEntropyOptions Module Parameter UninitializedBuffer UninitializedParameter"


def _unmodelled(groups: dict[str, str]) -> set[str]:
    return {name for names in groups.values() for name in names.split()}


def _callables(module: Any) -> set[str]:
    members = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {name for name, member in members.items() if callable(member) and not isinstance(member, type)}


def _resolve(name: str) -> Any:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ImportError(name)


@pytest.mark.parametrize(
    ("namespace", "unmodelled"),
    [
        ("torch", UNMODELLED_FUNCTIONS),
        ("torch.nn.functional", UNMODELLED_FUNCTIONAL),
        ("torch.special", {}),
        ("torch.linalg", {}),
        ("torch.fft", {}),
    ],
)
def test_every_public_function_has_a_row_or_a_reason_for_none(namespace: str, unmodelled: dict[str, str]) -> None:
    rows = {
        name.rpartition(".")[2] for name in {**table.FUNCTIONS, **table.LOSSES} if name.rpartition(".")[0] == namespace
    }
    modes = {name.rpartition(".")[2] for name in table.GRAD_MODES}
    missing = _callables(_resolve(namespace)) - rows - modes - _unmodelled(unmodelled)
    assert not missing
    assert not rows & _unmodelled(unmodelled)


def test_every_member_of_a_tensor_is_known() -> None:
    members = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    rows = {*table.METHODS, *table.ATTRIBUTES} | table.SPECIAL_METHODS | table.SPECIAL_ATTRIBUTES
    assert not members - rows - _unmodelled(UNMODELLED_METHODS)


def test_every_class_of_torch_nn_is_a_layer_or_a_loss() -> None:
    classes = {f"torch.nn.{name}" for name in dir(nn) if isinstance(getattr(nn, name), type)}
    assert classes - set(table.LAYERS) - set(table.LOSSES) == {f"torch.nn.{name}" for name in NOT_LAYERS.split()}


def test_every_optimizer_scheduler_and_initialiser_of_torch_is_known() -> None:
    def classes(module: Any, base: type) -> set[str]:
        found = {name for name in dir(module) if isinstance(getattr(module, name), type)}
        return {f"{module.__name__}.{name}" for name in found if issubclass(getattr(module, name), base)}

    assert classes(torch.optim, torch.optim.Optimizer) <= table.OPTIMIZERS
    schedulers = classes(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler)
    assert schedulers <= table.SCHEDULERS
    inits = {f"torch.nn.init.{name}" for name in _callables(nn.init) if not name[0].isupper()}
    assert inits - table.INITS == {"torch.nn.init.calculate_gain"}


# not there in every version or build, or (the last two) the canonical spelling of a private class
_ABSENT = {"torch.cpu.amp.GradScaler", "torch.nn.utils.clip_grad_norm", "torch.nn._Loss", "torch.nn._WeightedLoss"}


@pytest.mark.parametrize(
    "names",
    [
        "FUNCTIONS",
        "LAYERS",
        "LOSSES",
        "DROPOUTS",
        "OPTIMIZERS",
        "SCHEDULERS",
        "SCALERS",
        "GRAD_MODES",
        "AUTOCASTS",
        "CLIPS",
        "INITS",
        "MODULE_BASES",
        "FUNCTION_BASES",
        "DATASET_BASES",
        "LOADERS",
        "PASSED_THROUGH",
        "HARMLESS",
    ],
)
def test_names_of_torch_exist(names: str) -> None:
    mine = [name for name in getattr(table, names) if name.startswith("torch.") and name not in _ABSENT]
    assert mine
    for name in mine:
        assert _resolve(name) is not None, name


def test_names_are_canonical() -> None:
    for names in (
        "FUNCTIONS",
        "LAYERS",
        "LOSSES",
        "OPTIMIZERS",
        "GRAD_MODES",
        "MODULE_BASES",
        "NUMPY_CONVERTERS",
        "SCALERS",
    ):
        unreachable = {name for name in getattr(table, names) if table.canonical(name) not in getattr(table, names)}
        assert not unreachable, names


def test_methods_and_attributes_exist() -> None:
    rows = {*table.METHODS, *table.ATTRIBUTES} | table.SPECIAL_METHODS
    assert not {name for name in rows if not hasattr(torch.Tensor, name)}


def test_aliases_name_the_same_thing() -> None:
    checked = 0
    for module in ("activation", "batchnorm", "container", "conv", "dropout", "linear", "loss", "rnn", "sparse"):
        inner = importlib.import_module(f"torch.nn.modules.{module}")
        for name in inner.__all__:
            canonical = table.canonical(f"torch.nn.modules.{module}.{name}")
            if canonical in table.LAYERS or canonical in table.LOSSES:
                assert _resolve(canonical) is getattr(inner, name)
                checked += 1
    assert checked > 80


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("torch.nn.modules.loss.CrossEntropyLoss", "torch.nn.CrossEntropyLoss"),
        ("torch.nn.modules.Linear", "torch.nn.Linear"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.autograd.variable.Variable", "torch.autograd.Variable"),
        ("torch.autograd.grad_mode.no_grad", "torch.no_grad"),
        ("torch.autograd.set_grad_enabled", "torch.set_grad_enabled"),
        ("torch.optim.adam.Adam", "torch.optim.Adam"),
        ("torch.cuda.amp.grad_scaler.GradScaler", "torch.cuda.amp.GradScaler"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.functional.einsum", "torch.einsum"),
        ("lightning.pytorch.LightningModule", "pytorch_lightning.LightningModule"),
        ("lightning.pytorch.core.LightningModule", "pytorch_lightning.LightningModule"),
        ("torch.nn.functional.relu", "torch.nn.functional.relu"),
        ("somebody.elses.module", "somebody.elses.module"),
    ],
)
def test_other_spellings_lead_to_the_canonical_name(spelled: str, canonical: str) -> None:
    assert table.canonical(spelled) == canonical


def test_the_table_needs_neither_torch_nor_libcst() -> None:
    code = (
        "import sys, gradlint.static.knowledge.torch_table\n"
        "print(*[name for name in ('torch', 'libcst', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_losses_take_prediction_and_target_where_the_table_says() -> None:
    names = {"input", "log_input", "log_probs", "input1", "anchor"}
    for name, loss in table.LOSSES.items():
        if not name.startswith("torch.nn."):
            continue
        function = _resolve(name)
        is_class = name.rpartition(".")[2][0].isupper()
        called = list(inspect.signature(function.forward if is_class else function).parameters)
        parameters = called[1:] if is_class else called
        assert parameters[loss.input] in names, name
        if loss.target >= 0:
            assert parameters[loss.target] in {"target", "targets"}, name
        else:
            assert not {"target", "targets"} & set(parameters), name


@pytest.mark.parametrize("name", table.PARAMETER_NAMES)
def test_layers_have_no_other_parameters_than_the_table_says(name: str) -> None:
    cls = getattr(nn, name.removeprefix("torch.nn."))
    needed = [p for p in inspect.signature(cls).parameters.values() if p.default is p.empty]
    options = {"affine": True} if "affine" in inspect.signature(cls).parameters else {}
    layer = cls(*[2] * len(needed), **options)
    assert [parameter for parameter, _ in layer.named_parameters()] == list(table.PARAMETER_NAMES[name])


def test_dropouts_take_their_arguments_where_the_table_says() -> None:
    for name, dropout in table.DROPOUTS.items():
        assert name.rpartition(".")[2] == dropout.name
        if dropout.name == "scaled_dot_product_attention":  # a builtin: its signature stands in its docstring
            assert "(query, key, value, attn_mask=None, dropout_p=0.0," in (
                F.scaled_dot_product_attention.__doc__ or ""
            )
            assert (dropout.probability, dropout.default, dropout.training) == (4, 0.0, None)
            continue
        parameters = inspect.signature(_resolve(name)).parameters
        assert list(parameters)[dropout.probability] == dropout.keyword
        assert dropout.training is not None
        training = list(parameters.values())[dropout.training]
        assert (training.name, training.default) == ("training", dropout.drops_by_default)
        default = parameters[dropout.keyword].default
        assert dropout.default == (None if default is inspect.Parameter.empty else default)


@pytest.mark.parametrize(
    ("name", "builds"),
    [
        ("torchvision.models.resnet18", True),
        ("torchvision.models.segmentation.fcn_resnet50", True),
        ("torchvision.models.ResNet18_Weights.DEFAULT", False),
        ("torchvision.models.list_models", False),
        ("transformers.AutoModelForSequenceClassification.from_pretrained", True),
        ("transformers.AutoTokenizer.from_pretrained", False),
        ("transformers.BertConfig.from_pretrained", False),
        ("efficientnet_pytorch.EfficientNet.from_name", True),
        ("timm.create_model", True),
        ("timm.list_models", False),
        ("mine.resnet18", False),
    ],
)
def test_factories_of_models_are_known(name: str, builds: bool) -> None:
    assert table.builds_module(name) is builds


@pytest.mark.parametrize(
    ("name", "options", "depends"),
    [
        ("torchvision.models.resnet18", [], True),
        ("torchvision.models.resnet.resnet18", ["weights"], True),
        ("torchvision.models.vgg11_bn", [], True),
        ("torchvision.models.alexnet", [], True),
        ("torchvision.models.swin_v2_t", [], True),
        ("torchvision.models.segmentation.fcn_resnet50", [], True),
        ("torchvision.models.vit_b_16", [], False),
        ("torchvision.models.resnet18", ["norm_layer"], False),
        ("torchvision.models.vgg16", ["dropout"], False),
        ("torchvision.models.detection.fasterrcnn_resnet50_fpn", [], False),
        ("torchvision.models.quantization.resnet18", [], False),
        ("mine.resnet18", [], False),
    ],
)
def test_models_that_depend_on_the_mode_are_known(name: str, options: list[str], depends: bool) -> None:
    assert table.depends_on_mode(name, options) is depends


@pytest.mark.parametrize(
    ("name", "harmless"),
    [
        ("builtins.print", True),
        ("torch.save", True),
        ("logging.info", True),
        ("wandb.log", True),
        ("torch.utils.tensorboard.SummaryWriter", True),
        ("torch.cuda.synchronize", True),
        ("torch.cuda.amp.GradScaler", False),
        ("torch.nn.utils.clip_grad_norm_", False),
        ("copy.deepcopy", False),
        ("somewhere.reset", False),
    ],
)
def test_harmless_calls_are_known(name: str, harmless: bool) -> None:
    assert table.is_harmless(name) is harmless


HOLDING = [name for name, layer in sorted(table.LAYERS.items()) if layer.container in ("list", "dict", "wrapper")]


@pytest.mark.parametrize("name", [name for name in HOLDING if name.startswith("torch.nn.")])
def test_containers_are_given_what_they_hold_by_this_name(name: str) -> None:
    path, _, cls = name.rpartition(".")
    first, *_ = inspect.signature(getattr(importlib.import_module(path), cls)).parameters
    assert table.LAYERS[name].held == first
