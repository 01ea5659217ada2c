"""Finding the head: transformers, torchvision- and timm-style models, plain modules."""

import pytest
import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.methods import CrossEntropy, HeadNoise, create
from calibrant.training import attach, find_head


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


class ResNetStyle(nn.Module):
    """torchvision ResNet: fc after pooling and flattening."""

    def __init__(self):
        super().__init__()
        self.conv1, self.avgpool = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 3)

    def forward(self, images):
        return self.fc(self.avgpool(self.conv1(images)).flatten(1))


class VggStyle(nn.Module):
    """torchvision VGG, AlexNet, MobileNet: classifier is a Sequential."""

    def __init__(self):
        super().__init__()
        self.features, self.avgpool = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))

    def forward(self, images):
        return self.classifier(self.avgpool(self.features(images)).flatten(1))


class VitStyle(nn.Module):
    """torchvision ViT: heads is a Sequential with one layer named head."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(27, 8)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(8, 3))

    def forward(self, images):
        return self.heads(self.encoder(images.flatten(1)[:, :27]))


class ConvNextStyle(nn.Module):
    """timm: head pools and normalises, get_classifier names the last layer in it."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.head = nn.Sequential()
        self.head.add_module("global_pool", nn.AdaptiveAvgPool2d(1))
        self.head.add_module("flatten", nn.Flatten())
        self.head.add_module("fc", nn.Linear(8, 3))

    def get_classifier(self):
        return self.head.fc

    def forward(self, images):
        return self.head(self.stem(images))


class BatchNormHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 8)
        self.head = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 3))

    def forward(self, inputs):
        return self.head(self.encoder(inputs))


IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, -100])


@pytest.mark.parametrize(
    ("build", "name", "width"),
    [
        (ResNetStyle, "fc", 8),
        (VggStyle, "classifier", 8),
        (VitStyle, "heads", 8),
        (ConvNextStyle, "head.fc", 8),
    ],
)
def test_image_models(build, name, width):
    model, method = build(), create("head_noise_error_regularization")
    assert find_head(model)[0] == name
    with attach(model, method) as hook:
        step = hook.step(model(IMAGES), LABELS)
        method.loss(step).backward()
    assert step.features.shape == (4, width)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_real_torchvision():
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    models = torchvision.models
    assert find_head(models.resnet18())[0] == "fc"
    assert find_head(models.mobilenet_v3_small())[0] == "classifier"
    assert find_head(models.vit_b_16())[0] == "heads"


def test_real_timm():
    timm = pytest.importorskip("timm", reason="timm is not installed")
    assert find_head(timm.create_model("resnet18", pretrained=False))[0] == "fc"
    assert find_head(timm.create_model("convnext_atto", pretrained=False))[0] == "head.fc"


def small(config, **more):
    sizes = {"vocab_size": 50, "num_labels": 3, "pad_token_id": 0, **more}
    return config(**sizes)


def transformer(name, task):
    transformers = pytest.importorskip("transformers")
    wide = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    if name == "DistilBert":
        wide = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
    config = small(getattr(transformers, f"{name}Config"), **wide)
    torch.manual_seed(0)
    return getattr(transformers, f"{name}For{task}Classification")(config)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # DeBERTa's own.
@pytest.mark.parametrize("task", ["Token", "Sequence"])
@pytest.mark.parametrize(
    "name", ["Bert", "DistilBert", "Roberta", "Deberta", "DebertaV2", "Electra"]
)
def test_transformers(name, task):
    model = transformer(name, task).eval()  # Without dropout a second pass gives the same.
    ids = torch.randint(1, 50, (4, 6), generator=torch.Generator().manual_seed(0))
    labels = LABELS if task == "Sequence" else LABELS.unsqueeze(-1).repeat(1, 6)
    method = create("head_noise_error_regularization")
    with attach(model, method) as hook:
        assert hook.name == "classifier"
        step = hook.step(model(input_ids=ids).logits, labels)
    torch.testing.assert_close(step.head(step.features), step.logits)
    assert step.features.shape[-1] == 16
    model.train()
    with attach(model, method) as hook:
        step = hook.step(model(input_ids=ids).logits, labels)
        method.loss(step).backward()
    assert all(p.grad is not None for p in model.classifier.parameters())
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_a_decoder_that_pools_after_its_head():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, num_labels=3, pad_token_id=0
    )
    model = transformers.GPT2ForSequenceClassification(config)
    ids = torch.randint(1, 50, (4, 6))
    method = HeadNoise()
    with attach(model, method) as hook:
        assert hook.name == "score"
        method.loss(hook.step(model(input_ids=ids).logits, LABELS)).backward()
    assert method.terms["noise"] > 0
    method = create("head_noise_error_regularization")
    with attach(model, method) as hook:
        step = hook.step(model(input_ids=ids).logits, LABELS)
        method.loss(step).backward()
    assert method.terms["with"] >= 0


def test_last_linear_stack():
    class Unnamed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 8)
            self.top = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

    assert find_head(Unnamed())[0] == "top"
    assert find_head(mlp())[0] == "2"


def test_named_by_the_user():
    assert find_head(mlp(), "0")[0] == "0"
    with pytest.raises(InputError, match=r"no module '9'.*'2' \(Linear\)"):
        find_head(mlp(), "9")


@pytest.mark.parametrize(
    "model", [nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 3, 1)), nn.ReLU()]
)
def test_not_found_lists_the_candidates(model):
    with pytest.raises(InputError, match=r"No classification head") as caught:
        find_head(model)
    assert ("'1' (Conv2d), '0' (Conv2d)" in str(caught.value)) == isinstance(model, nn.Sequential)


class ConvolutionOnTop(nn.Module):
    """The last linear layer is inside the encoder: found by the rules, and not the head."""

    def __init__(self):
        super().__init__()
        self.body, self.to_logits = nn.Linear(4, 8), nn.Conv1d(8, 3, 1)

    def forward(self, tokens):
        return self.to_logits(self.body(tokens).transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize(
    ("name", "uses_head"), [("head_noise", "loss"), ("gamma_net_sece", "outer_step")]
)
def test_a_layer_of_the_encoder_does_not_pass_for_the_head(name, uses_head):
    model, method, tokens = ConvolutionOnTop(), create(name), torch.randn(2, 5, 4)
    labels = torch.zeros(2, 5, dtype=torch.long)
    with attach(model, method) as hook:
        assert hook.name == "body"
        holdout = hook.step(model(tokens), labels)
        step = hook.step(model(tokens), labels, holdout=holdout)
        with pytest.raises(InputError, match=r"'body' is not the head.*'to_logits' \(Conv1d\)"):
            getattr(method, uses_head)(step)


def test_inside_a_compiled_wrapper():
    compiled = torch.compile(ResNetStyle(), backend="eager")
    assert find_head(compiled)[0] == "fc"


def test_noise_stays_out_of_running_statistics():
    noisy, plain = BatchNormHead(), BatchNormHead()
    plain.load_state_dict(noisy.state_dict())
    inputs, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    method = create("head_noise_error_regularization")
    with attach(noisy, method) as hook:
        method.loss(hook.step(noisy(inputs), labels)).backward()
    plain(inputs)
    for name, value in plain.named_buffers():
        assert torch.equal(noisy.get_buffer(name), value), name


def test_a_step_without_the_tap_is_refused():
    """Without the identity the encoder would silently train with half of its gradient."""
    from calibrant.training import Step

    with pytest.raises(InputError, match="attach"):
        HeadNoise().loss(Step(torch.zeros(2, 3), torch.tensor([0, 1])))
    model = mlp()
    with attach(model, CrossEntropy()) as hook:
        step = hook.step(model(torch.ones(2, 4)), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="multiplies by 1"):
        HeadNoise().loss(step)


def test_a_step_needs_a_forward_pass_of_its_own():
    model = mlp()
    with attach(model, HeadNoise()) as hook:
        logits = model(torch.ones(2, 4))
        hook.step(logits, torch.tensor([0, 1]))
        with pytest.raises(InputError, match="run the model first"):
            hook.step(logits, torch.tensor([0, 1]))


def test_shapes_that_do_not_fit():
    from calibrant.training import Step

    with pytest.raises(InputError, match=r"\(2, 3\) and \(3,\)"):
        Step(torch.zeros(2, 3), torch.zeros(3, dtype=torch.long))


def test_two_methods_at_once_are_refused_and_one_after_the_other_are_not():
    model = mlp()
    first = attach(model, HeadNoise())
    with pytest.raises(InputError, match="already has HeadNoise attached"):
        attach(model, CrossEntropy())
    first.remove()
    with attach(model, CrossEntropy()):
        pass


def test_head_noise_in_evaluation_mode():
    """The hook scales no gradient there, so the division would halve the encoder's."""
    model, method = mlp().eval(), HeadNoise()
    inputs, labels = torch.ones(2, 4), torch.tensor([0, 1])
    with attach(model, method) as hook:
        with pytest.raises(InputError, match="in training mode"):
            method.loss(hook.step(model(inputs), labels))
        with torch.no_grad():  # To look at the value does no harm.
            task = CrossEntropy().loss(hook.step(model(inputs), labels))
            assert method.loss(hook.step(model(inputs), labels)) == task


def test_a_head_called_for_half_the_batch_at_a_time():
    model, method = mlp(), HeadNoise()
    with attach(model, method) as hook:
        logits = torch.cat([model(torch.ones(2, 4)), model(torch.zeros(2, 4))])
        with pytest.raises(InputError, match="for a part of the batch at a time"):
            method.loss(hook.step(logits, torch.tensor([0, 1, 2, 0])))
