"""Classifiers of transformers with a few thousand weights, and data for them."""

import json

import numpy as np

FIRST = ["Anna", "Boris", "Clara", "Dario", "Elena", "Felix"]
LAST = ["Berg", "Holm", "Lind", "Sand"]
PLACES = ["Paris", "Rome", "Oslo", "Lima", "Accra"]
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip


def sentence(rng):
    """Return words and tags."""
    name = [(rng.choice(FIRST), "B-PER"), (rng.choice(LAST), "I-PER")]
    place = [("New", "B-LOC"), ("York", "I-LOC")] if rng.random() < 0.3 else [
        (rng.choice(PLACES), "B-LOC")
    ]  # fmt: skip
    middle = [("lives", "O"), ("in", "O")] if rng.random() < 0.5 else [("loves", "O")]
    words = [*name, *middle, *place, (".", "O")]
    return [str(word) for word, _ in words], [tag for _, tag in words]


def sentences(seed, size):
    rng = np.random.default_rng(seed)
    return [sentence(rng) for _ in range(size)]


def write_sentences(folder, seed=1, splits=("train", "dev", "test")):
    for number, split in enumerate(splits):
        rows = [
            "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
            for words, tags in sentences(seed + number, 40)
        ]
        (folder / f"{split}.conll").write_text("\n".join(rows))
    return folder


def write_texts(folder, labels=("neg", "pos"), size=40):
    rng = np.random.default_rng(3)
    for split in ("train", "dev", "test"):
        rows = [
            {"text": " ".join(sentence(rng)[0]), "label": labels[int(rng.integers(len(labels)))]}
            for _ in range(size)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def wordpiece():
    """The tokenizer of BERT for the words of the corpus, some of them in several pieces."""
    from calibrant.tasks.encoders.small_encoder import build_small_tokenizer

    words = [*FIRST[:3], *LAST, *PLACES, "New", "lives", "in", "loves", "."]
    return build_small_tokenizer(words)


def byte_pairs(kind, **options):
    """The tokenizer of RoBERTa or GPT-2, its pieces learned from the corpus."""
    import tokenizers
    import transformers

    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    core.train_from_iterator([" ".join(words) for words, _ in sentences(0, 50)], trainer)
    content = json.loads(core.to_str())["model"]
    merges = [tuple(pair) for pair in content["merges"]]
    return getattr(transformers, kind)(vocab=content["vocab"], merges=merges, **options)


def names(labels):
    numbers = dict(enumerate(labels))
    return {"id2label": numbers, "label2id": {name: number for number, name in numbers.items()}}


def save(model, reader, folder):
    from calibrant.tasks.encoders.foreign_models import quiet

    with quiet():
        model.eval().save_pretrained(folder)
        reader.save_pretrained(folder)
    return folder


def make_tagger(
    folder, tags, steps=0, own=lambda tag: tag, kind="BertForTokenClassification", **options
):
    """Write a tagger; with ``steps`` it learns the tags of the corpus, which ``own`` renames."""
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer = wordpiece()
    config = transformers.BertConfig(
        **SMALL,
        **{"vocab_size": len(tokenizer), "max_position_embeddings": 64, **names(tags), **options},
    )
    model = getattr(transformers, kind)(config)
    if steps:
        learn(model, tokenizer, steps, own)
    return save(model, tokenizer, folder)


def learn(model, tokenizer, steps, own):
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    rows = sentences(100, 32)
    batch = tokenizer(
        [w for w, _ in rows], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    labels = torch.full(batch["input_ids"].shape, -100)
    for row, (_, tags) in enumerate(rows):
        before = None
        for place, word in enumerate(batch.word_ids(row)):
            if word is not None and word != before:
                labels[row, place] = model.config.label2id[own(tags[word])]
            before = word
    for _ in range(steps):
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
