"""The options of ``calibrant train``; what is not given has the default of its task."""

from __future__ import annotations

from typing import Any

from calibrant.cli.options import add_trust

__all__ = ["add_how", "add_what", "add_where"]


def add_what(group: Any) -> None:
    """Data, model, method and head."""
    group.add_argument("--task", default="ner", help="'calibrant list tasks' shows all (ner)")
    group.add_argument(
        "--data",
        metavar="NAME|FOLDER|FILE",
        help="by name, found under --data-dir (ner: conll2003, ncbi-disease, wikiann-en, gum, "
        "wnut17, synthetic; text: 20newsgroups, clinc150, synthetic; image: digits, cifar10; "
        "segmentation: shapes), or a folder with train, (dev) and test parts; docs/tasks.md tells "
        "the formats",
    )
    for split, note in (("train", "in place of --data"), ("dev", "if any"), ("test", "")):
        group.add_argument(
            f"--{split}",
            dest=f"{split}_file",
            metavar="FILE",
            help=f"of entities: the file of this split{', ' * bool(note)}{note}",
        )
    group.add_argument(
        "--unseen-types",
        help="of entities: types that only the dev or test split has are kept, as entities that "
        "cannot be found, dropped, or an error (keep)",
    )
    group.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="of text: minilm, tiny (small, from scratch), a folder or a hub name (minilm); of "
        "images: lenet, tiny, resnet18, resnet50, vit_tiny, mlp_mixer, … (lenet); of masks: unet, "
        "fcn_resnet50, deeplabv3_resnet50 (unet)",
    )
    group.add_argument(
        "--method",
        default="cross_entropy",
        help="'calibrant list methods' shows all (cross_entropy)",
    )
    group.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a parameter of the method, as JSON; may be given several times",
    )
    group.add_argument(
        "--head-width", type=int, help="of hidden head layers (128); of the U-Net (16)"
    )
    group.add_argument("--head-depth", type=int, help="hidden layers of the head (1; of images 0)")
    group.add_argument("--head-activation", help="relu, gelu, tanh or none between them (relu)")
    group.add_argument(
        "--shift",
        nargs="+",
        default=[],
        metavar="NAME",
        help="what to test on besides: corruptions such as typos-3 ('calibrant list corruptions' "
        "shows all), other corpora, folders or files",
    )


def add_how(group: Any) -> None:
    """Engine, seeds, schedule and everything else that decides the result."""
    group.add_argument(
        "--engine",
        help="lean: fast, float32 or bfloat16; trainer: the Hugging Face Trainer, also float16, "
        "not for images; both also under torchrun (lean)",
    )
    group.add_argument(
        "--seed",
        type=int,
        nargs="+",
        default=[0],
        help="of head, batches, dropout, noise; several, as in --seed 0 1 2, train RUN/seed-0 and "
        "so on, and print means with intervals (0)",
    )
    group.add_argument(
        "--epochs", type=int, help="(10, of images 20, of masks 40; more where data is little)"
    )
    group.add_argument(
        "--batch",
        type=int,
        help="windows, texts or images of one optimizer step, over all devices (32; images "
        "64, masks 16)",
    )
    group.add_argument(
        "--accumulate", type=int, help="parts to run a batch in, for less memory (1)"
    )
    _add_optimizer(group)
    group.add_argument(
        "--augment", help="of images: none, or crop, flip and cutout joined by + (crop)"
    )
    group.add_argument(
        "--image-size", type=int, help="side to which images are brought (0: all are of one size)"
    )
    group.add_argument(
        "--compile",
        action="store_const",
        const=True,
        help="compile the encoder of images with torch.compile",
    )
    group.add_argument(
        "--calibrator",
        help="the post-hoc map that predictions are made with; auto: the simplest that "
        "no other beats in log-loss by cross-validation on the validation split "
        "(auto; segmentation temperature)",
    )
    group.add_argument(
        "--patience",
        type=int,
        help="stop after so many epochs without a better validation score (F1, or accuracy), and "
        "take the best epoch (0: never, take the last)",
    )
    group.add_argument(
        "--dtype", help="float32, bfloat16 or float16 (bfloat16 on CUDA, else float32)"
    )
    group.add_argument(
        "--max-length",
        type=int,
        help="pieces; longer sentences are windowed (512), longer texts shortened (256)",
    )


def _add_optimizer(group: Any) -> None:
    """How the weights are moved."""
    group.add_argument(
        "--optimizer", help="adamw or sgd, with Nesterov momentum (adamw; images sgd)"
    )
    group.add_argument(
        "--learning-rate", type=float, help="(ner 5e-5, text 1e-4, image 0.1, segmentation 5e-3)"
    )
    group.add_argument("--momentum", type=float, help="of sgd (0.9)")
    group.add_argument("--weight-decay", type=float, help="(0.01; of images 5e-4)")
    group.add_argument(
        "--decay", help="linear, cosine, or step at 50 and 75 %% (linear; images cosine)"
    )
    group.add_argument("--warm-up", type=float, help="share of all steps (0; of images 0.1)")
    group.add_argument(
        "--clip", type=float, help="largest norm of the gradient; 0: any (1; images 0)"
    )


def add_where(group: Any) -> None:
    """What does not decide the result."""
    add_trust(group)
    group.add_argument("--data-dir", metavar="FOLDER", help="where corpora are (CALIBRANT_DATA)")
    group.add_argument("--device", help="cpu, cuda, cuda:1 (cuda where there is one)")
    group.add_argument(
        "--save-every",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="checkpoints inside an epoch, beside that at its end (300; lean engine)",
    )
    group.add_argument(
        "--tensorboard",
        action="store_true",
        help="write each epoch's numbers to RUN/tensorboard too, for 'tensorboard --logdir'",
    )
    group.add_argument(
        "--bootstrap", type=int, default=1000, help="replicates for the report's intervals (1000)"
    )
