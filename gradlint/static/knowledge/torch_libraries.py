"""What other libraries do with tensors and modules: models they build, and calls that touch nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gradlint.static.knowledge.guesses import INTEGERS_NAME, MODULE_CLASS_NAME, PREDICTIONS_NAME
from gradlint.static.knowledge.ops import names, words

MODULE_FACTORIES: Final = names(
    "",
    "timm.create_model torch.hub.load open_clip.create_model pretrainedmodels.resnet50 clip.load "
    "sentence_transformers.SentenceTransformer",
    "segmentation_models_pytorch.create_model segmentation_models_pytorch.Unet segmentation_models_pytorch.UnetPlusPlus "
    "segmentation_models_pytorch.FPN segmentation_models_pytorch.PSPNet segmentation_models_pytorch.Linknet "
    "segmentation_models_pytorch.MAnet segmentation_models_pytorch.PAN segmentation_models_pytorch.DeepLabV3 "
    "segmentation_models_pytorch.DeepLabV3Plus segmentation_models_pytorch.Segformer",
    "monai.networks.nets.UNet monai.networks.nets.SwinUNETR monai.networks.nets.DenseNet121",
    "torchaudio.models.Conformer torchaudio.models.ConvTasNet torchaudio.models.Tacotron2 torchaudio.models.Wav2Letter",
)
"""Calls that build a trainable model whose inside is not known."""

MODULE_FACTORY_PREFIXES: Final = ("torchvision.models.", "pretrainedmodels.", "torchaudio.models.")
"""Namespaces whose callables build such a model."""

_PRETRAINED: Final = (
    "transformers.",
    "efficientnet_pytorch.",
    "diffusers.",
    "pytorch_pretrained_bert.",
    "pytorch_transformers.",
)
_NOT_MODELS: Final = ("Tokenizer", "Config", "Processor", "FeatureExtractor", "Weights", "Scheduler", "Pipeline")


_CLASSIFIERS: Final = (
    "torchvision.models.",
    "pretrainedmodels.",
    "timm.create_model",
    "torch.hub.load",
    "efficientnet_",
)
_NOT_CLASSIFIERS: Final = (".segmentation.", ".detection.", ".optical_flow.", "inception_v3", "googlenet", "squeezenet")
_HEADS: Final = ("fc", "classifier", "heads", "head", "last_linear", "_fc")


_OTHER_LAYERS: Final = ("torchvision.models.detection.", "torchvision.models.quantization.")
"""Namespaces of models that hold frozen layers, and layers whose weights are no parameters."""


PARTS: Final = frozenset(
    [
        "layer1",
        "layer2",
        "layer3",
        "layer4",
        "conv1",
        "bn1",
        "avgpool",
        "features",
        "encoder",
        "stem",
        "blocks",
        "backbone",
        "stages",
        "norm",
    ]
).union(_HEADS)
"""The attributes under which a model of one of those libraries keeps modules."""


def is_part(name: str, attribute: str) -> bool:
    """Whether a model that ``name`` (canonical) builds keeps a module under ``attribute``, if anything."""
    return attribute in PARTS and name.startswith(_CLASSIFIERS)


_WITHOUT_PARAMETERS: Final = frozenset(["avgpool", "norm", "stages", "stem"])
"""Those of them that may have none."""


def has_parameters(attribute: str) -> bool:
    """Whether what a model keeps under ``attribute`` has parameters, if that is one of its parts."""
    return attribute in PARTS - _WITHOUT_PARAMETERS


def classifies_many(name: str, options: Iterable[str]) -> bool:
    """Whether a model that ``name`` (canonical) builds, given these options, gives a number for each of many classes."""
    factory = name.startswith("torchvision.models.") and name.rpartition(".")[2].islower()
    return factory and bool(heads(name)) and "num_classes" not in options


def names_integers(name: str) -> bool:
    """Whether the outputs of models have integers under this name, which carry no graph."""
    return INTEGERS_NAME.search(name) is not None


def names_predictions(name: str) -> bool:
    """Whether models hand out under this name what they compute with their weights, as those of transformers do."""
    return PREDICTIONS_NAME.search(name) is not None


def heads(name: str) -> tuple[str, ...]:
    """The attributes under which a model that ``name`` (canonical) builds may keep its last layer, whose output it gives."""
    return _HEADS if name.startswith(_CLASSIFIERS) and not any(word in name for word in _NOT_CLASSIFIERS) else ()


_TRAINABLE: Final = (
    "torchvision.models.",
    "timm.create_model",
    "pretrainedmodels.",
    "efficientnet_pytorch.",
    "segmentation_models_pytorch.",
)


def holds_parameters(name: str) -> bool:
    """Whether the weights and biases of the layers inside a model that ``name`` (canonical) builds are parameters.

    None of them is frozen, as long as the program freezes none.
    """
    return builds_module(name) and name.startswith(_TRAINABLE) and not name.startswith(_OTHER_LAYERS)


def any_of(namespace: str) -> str | None:
    """What stands for a member of a library's namespace that is chosen by name when the program runs."""
    if namespace == "torch.optim":
        return "torch.optim.Optimizer"
    some = f"{namespace}.model"
    return some if builds_module(some) else None


def builds_module(name: str) -> bool:
    """Whether calling ``name`` (canonical) gives a trainable model whose inside is not known."""
    owner, _, last = name.rpartition(".")
    if any(word in name for word in _NOT_MODELS):
        return False
    if name in MODULE_FACTORIES:
        return True
    if last in ("from_pretrained", "from_name", "from_config"):
        return name.startswith(_PRETRAINED) or owner.startswith("timm.")
    return name.startswith(MODULE_FACTORY_PREFIXES) and not last.startswith(("get_", "list_", "_"))


_NOT_TORCH: Final = tuple(
    f"{name}."
    for name in words(
        "builtins torch tensorflow tf_keras keras paddle mxnet mindspore jax flax chainer tinygrad mlx dspy"
    )
)
"""Namespaces of classes that are no modules of torch, or that the table names where they are."""


def is_module_class(name: str) -> bool:
    """Whether a class of another library is a module, if one that derives from it has a forward pass; by its name."""
    return MODULE_CLASS_NAME.search(name) is not None and not name.startswith(_NOT_TORCH)


_BATCH_NORM: Final = (
    *("resnet", "resnext", "wide_resnet", "densenet", "mobilenet_v", "efficientnet_", "inception_v3", "googlenet"),
    *("regnet_", "shufflenet_v2", "mnasnet", "maxvit", "fcn_", "deeplabv3_", "lraspp_", "r3d_", "mc3_", "r2plus1d_"),
    "s3d",
)
_DROPOUT: Final = ("vgg", "alexnet", "squeezenet")
_STOCHASTIC_DEPTH: Final = ("swin_", "swin3d_", "convnext_", "mvit_")
_REPLACES_LAYERS: Final = frozenset(["norm_layer", "dropout", "attention_dropout", "stochastic_depth_prob"])


def depends_on_mode(name: str, options: Iterable[str]) -> bool:
    """Whether a model that ``name`` (canonical) builds, given these options, is known to differ between the modes.

    Those of torchvision with batch norm, dropout or stochastic depth do, unless they are told which layers to use
    instead; they are built in training mode.  Detectors ask for targets in training, and have frozen batch norm.
    """
    last = name.rpartition(".")[2]
    library = name.startswith("torchvision.models.") and not name.startswith(_OTHER_LAYERS)
    return (
        library and last.startswith(_BATCH_NORM + _DROPOUT + _STOCHASTIC_DEPTH) and _REPLACES_LAYERS.isdisjoint(options)
    )


def keeps_statistics(name: str) -> bool:
    """Whether a model that ``name`` (canonical) builds has batch norm, whose statistics move in training mode."""
    is_known = name.startswith("torchvision.models.") and not name.startswith(_OTHER_LAYERS)
    return is_known and name.rpartition(".")[2].startswith(_BATCH_NORM)


HARMLESS: Final = (
    names(
        "builtins",
        "abs all any ascii bool callable chr dict dir divmod enumerate filter float format frozenset hasattr hash hex id input "
        "int isinstance issubclass iter len list map max min next object oct open ord pow print range repr reversed round set "
        "slice sorted str sum tuple type vars zip",
    )
    | names("multiprocessing", "get_context")
    | names(
        "torch",
        "save manual_seed seed initial_seed get_rng_state set_rng_state get_num_threads set_num_threads set_default_dtype "
        "set_default_device set_default_tensor_type set_printoptions set_float32_matmul_precision is_tensor is_grad_enabled "
        "use_deterministic_algorithms device dtype Size Generator typename numel is_floating_point is_complex "
        "set_deterministic_debug_mode set_num_interop_threads set_flush_denormal get_default_dtype finfo iinfo",
    )
    | names(
        "",
        "torchsummary.summary torchinfo.summary thop.profile thop.clever_format ptflops.get_model_complexity_info "
        "fvcore.nn.FlopCountAnalysis fvcore.nn.parameter_count torchviz.make_dot hiddenlayer.build_graph "
        "torch.autograd.set_detect_anomaly torch.autograd.detect_anomaly torch.autograd.profiler.record_function",
    )
)
"""Callables that touch neither gradients nor parameters of what they are given."""

HARMLESS_PREFIXES: Final = tuple(
    f"{name}."
    for name in words(
        "argparse collections contextlib csv datetime functools gc glob io itertools json logging math operator os pathlib "
        "pickle pprint random re shutil signal string subprocess sys tempfile textwrap threading time traceback types typing "
        "uuid warnings yaml "
        "numpy pandas scipy sklearn matplotlib seaborn plotly PIL cv2 skimage imageio h5py bokeh networkx statsmodels "
        "tqdm wandb mlflow neptune comet_ml clearml aim swanlab visdom loguru rich termcolor colorama click absl hydra omegaconf "
        "einops.parsing prettytable tabulate psutil GPUtil pynvml codecarbon nltk sacrebleu rouge rouge_score seqeval jiwer "
        "evaluate torchmetrics "
        "torch.utils.tensorboard tensorboardX torch.cuda torch.backends torch.version torch.profiler torch.mps torch.random torch.testing "
        "torch.utils.data torch.multiprocessing torch.utils.benchmark "
        "torchvision.utils torchvision.transforms torchvision.datasets torchvision.io torchaudio.transforms torchtext "
        "albumentations pycocotools lpips pytorch_fid ignite.metrics"
    )
)
"""Namespaces of callables that touch neither gradients nor parameters of what they are given."""

_NOT_HARMLESS: Final = ("torch.cuda.amp.", "torch.cuda.make_graphed_callables", "torch.multiprocessing.spawn")


_PROCESS: Final = (1, "target", 3, "args", False)
RUN_APART: Final = {
    **dict.fromkeys(["multiprocessing.Process", "torch.multiprocessing.Process", "threading.Thread"], _PROCESS),
    "torch.multiprocessing.spawn": (0, "fn", 1, "args", True),
    "torch.multiprocessing.start_processes": (0, "fn", 1, "args", True),
    "accelerate.notebook_launcher": (0, "function", 1, "args", False),
}
"""What runs a function in a process or thread of its own, where gradients are enabled.

With the position and name of the function and of its arguments, and whether the number of the process comes before these.
"""

KEYED: Final = frozenset(["builtins.sorted", "builtins.min", "builtins.max"])
"""What calls its argument ``key`` with each of the items it is given."""

CALLING: Final = frozenset(
    [
        "apscheduler",
        "asyncio",
        "atexit",
        "concurrent",
        "gradio",
        "joblib",
        "multiprocessing",
        "sched",
        "signal",
        "threading",
        "tkinter",
    ]
)
"""Libraries whose functions and classes call what they are given as it is, later or in another thread."""

_STUDY: Final = "optuna.study.Study"

TRIED: Final = {
    f"{_STUDY}.optimize": (0, "func", 1),
    "hyperopt.fmin": (0, "fn", 1),
    "skopt.gp_minimize": (0, "func", 1),
    "skopt.forest_minimize": (0, "func", 1),
    "ray.tune.run": (0, "run_or_experiment", 1),
    "ray.tune.Tuner": (0, "trainable", 1),
    "wandb.agent": (1, "function", 0),
}
"""What calls a function again and again, to try out settings, in the gradient mode at hand.

With the position and name of the function, and the number of arguments it is given.
"""


def is_harmless(name: str) -> bool:
    """Whether ``name`` (canonical) leaves gradients and parameters alone, whatever it is given."""
    return name in HARMLESS or (name.startswith(HARMLESS_PREFIXES) and not name.startswith(_NOT_HARMLESS))


WRITER: Final = "torch.utils.tensorboard.SummaryWriter"
_SHOWN: Final = "add_scalar add_scalars add_histogram"
_SAVED: Final = "add_image add_images add_audio add_video add_embedding add_mesh"
WRITES: Final = names("", _SHOWN, _SAVED)
"""Methods that the writers of TensorBoard, and what is much like one, have alone."""

_SHOWS: Final = (
    names("builtins", "print repr str format")
    | names("logging", "debug info warning error critical log")
    | names("", "pprint.pprint rich.print wandb.log mlflow.log_metric mlflow.log_metrics")
    | names(WRITER, _SHOWN)
)
_SAVES: Final = (
    names("", "torch.save torchaudio.save pickle.dump wandb.Image wandb.Audio wandb.Video wandb.Histogram")
    | names("torchvision", "utils.save_image io.write_png io.write_jpeg io.encode_png io.encode_jpeg io.write_video")
    | names("torchvision.transforms", "functional.to_pil_image v2.functional.to_pil_image")
    | names(WRITER, _SAVED)
)


def shows(name: str) -> bool:
    """Whether ``name`` (canonical) prints or logs the numbers it is given."""
    return name in _SHOWS


def saves(name: str) -> bool:
    """Whether ``name`` (canonical) writes the images, sounds or tensors it is given to a file or a log."""
    return name in _SAVES


_AXES: Final = "matplotlib.axes.Axes"
_FIGURE: Final = "matplotlib.figure.Figure"
GIVES: Final = {
    **dict.fromkeys(["matplotlib.pyplot.figure", "matplotlib.pyplot.gcf", _FIGURE], _FIGURE),
    **dict.fromkeys((f"matplotlib.pyplot.{name}" for name in ("subplot", "axes", "gca", "twinx", "twiny")), _AXES),
    **dict.fromkeys((f"{_FIGURE}.{name}" for name in ("subplots", "add_subplot", "add_axes", "gca", "axes")), _AXES),
    **dict.fromkeys((f"{_AXES}.{name}" for name in ("twinx", "twiny", "inset_axes", "flat", "T")), _AXES),
    "sklearn.pipeline.make_pipeline": "sklearn.pipeline.Pipeline",
    **dict.fromkeys(["optuna.create_study", "optuna.load_study", "optuna.study.create_study", _STUDY], _STUDY),
    "argparse.ArgumentParser": "argparse.ArgumentParser",
    **dict.fromkeys([WRITER, "torch.utils.tensorboard.writer.SummaryWriter", "tensorboardX.SummaryWriter"], WRITER),
    **{f"{name}.get_context": name for name in ("multiprocessing", "torch.multiprocessing")},
}
"""The class of what a callable, or an attribute, gives."""

GIVES_ITSELF: Final = frozenset(["fit", "partial_fit", "set_params", "ravel", "flatten", "reshape", "transpose"])
"""Methods of such objects that give the object itself, or the axes it holds in another shape."""

STRINGS: Final = frozenset(["sys.argv", "os.environ"])
"""What holds strings that come from outside of the program."""

GIVES_SEVERAL: Final = {"matplotlib.pyplot.subplots": (_FIGURE, _AXES)}
"""The classes of what a callable gives together."""


def is_estimator(name: str) -> bool:
    """Whether ``name`` (canonical) is a class of scikit-learn."""
    return name.startswith("sklearn.") and name.rpartition(".")[2][:1].isupper()
