"""How honest the scores of entities are that other tools give, before and after ``fit --entities``.

A spaCy span categorizer and a Hugging Face pipeline are trained on part of a corpus. The calibrator
learns from the development split, and is measured on the test split: strict matches, with
intervals over documents (sentences). spaCy and a pretrained encoder are needed.

python benchmarks/entity_tools.py --data CORPORA --encoder MINILM --keep FOLDER --json FILE
"""

import argparse
import json
import random
import warnings
from pathlib import Path

from calibrant.entities import (
    EntityCalibrator,
    audit_entities,
    match_entities,
    read_entities,
    write_entities,
)
from calibrant.experiments.record import circumstances

SHOWN = ("accuracy", "mean_confidence", "ece", "auroc", "aurc", "nll")


def sentences(path, most=None):
    """Return (words, [(first word, last word + 1, type)]) of each sentence of a BIO file."""
    found, words, tags = [], [], []
    for line in [*path.read_text("utf-8").splitlines(), ""]:
        if line.strip():
            word, tag = line.split("\t")[:2]
            words.append(word)
            tags.append(tag)
        elif words:
            found.append((words, spans(tags)))
            words, tags = [], []
    return found[:most]


def spans(tags):
    found, start = [], None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and not (tag[:2] == "I-" and tag[2:] == tags[start][2:]):
            found.append((start, i, tags[start][2:]))
            start = None
        if start is None and tag != "O":
            start = i
    return found


def in_characters(words, found):
    """Return the text of the words and the spans counted in characters."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    return " ".join(words), [(starts[a], starts[b] - 1, kind) for a, b, kind in found]


def gold_records(part):
    for i, (words, found) in enumerate(part):
        text, marked = in_characters(words, found)
        yield {"id": f"s{i}", "text": text, "entities": [list(each) for each in marked]}


def spacy_tool(train, epochs):
    """Train a span categorizer; return a function from sentences to records with scores."""
    import spacy
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    from calibrant.integrations.spacy import document_record

    nlp = spacy.blank("en")
    longest = max((b - a for _, found in train for a, b, _ in found), default=1)
    suggester = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1,
                 "max_size": min(longest, 8)}  # fmt: skip
    spancat = nlp.add_pipe("spancat", config={"spans_key": "sc", "suggester": suggester})
    examples = []
    for words, found in train:
        gold = Doc(nlp.vocab, words=words)
        gold.spans["sc"] = [Span(gold, a, b, kind) for a, b, kind in found]
        examples.append(Example(Doc(nlp.vocab, words=words), gold))
    for kind in sorted({kind for _, found in train for *_, kind in found}):
        spancat.add_label(kind)
    nlp.initialize(lambda: examples)
    rng = random.Random(0)
    for _ in range(epochs):
        rng.shuffle(examples)
        for batch in spacy.util.minibatch(examples, 64):
            nlp.update(batch, drop=0.1)

    def records(part):
        for i, (words, _) in enumerate(part):
            doc = nlp(Doc(nlp.vocab, words=words, spaces=[True] * (len(words) - 1) + [False]))
            yield {"id": f"s{i}", **document_record(doc, spans_key="sc")}

    return records


def huggingface_tool(train, epochs, encoder):
    """Fine-tune a token classifier; return a function from sentences to a pipeline's output."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

    torch.manual_seed(0)
    kinds = sorted({kind for _, found in train for *_, kind in found})
    names = ["O", *(f"{side}-{kind}" for kind in kinds for side in "BI")]
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForTokenClassification.from_pretrained(
        encoder, num_labels=len(names), id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rng, order = random.Random(0), list(range(len(train)))
    model.train()
    for _ in range(epochs):
        rng.shuffle(order)
        for first in range(0, len(order), 32):
            part = [train[i] for i in order[first : first + 32]]
            batch = tokenizer([words for words, _ in part], is_split_into_words=True, padding=True,
                              truncation=True, max_length=128, return_tensors="pt")  # fmt: skip
            labels = torch.full(batch["input_ids"].shape, -100)
            for row, (words, found) in enumerate(part):
                tags = ["O"] * len(words)
                for a, b, kind in found:
                    tags[a:b] = [f"B-{kind}"] + [f"I-{kind}"] * (b - a - 1)
                last = None
                for column, word in enumerate(batch.word_ids(row)):
                    if word is not None and word != last:
                        labels[row, column] = names.index(tags[word])
                    last = word
            loss = model(**batch, labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    tagger = pipeline("ner", model=model.eval(), tokenizer=tokenizer,
                      aggregation_strategy="first")  # fmt: skip

    def records(part):
        texts = [" ".join(words) for words, _ in part]
        for i, (text, found) in enumerate(zip(texts, tagger(texts, batch_size=16), strict=True)):
            yield {"id": f"s{i}", "text": text, "entities": found}

    return records


def measure(folder, bootstrap):
    """Fit on the files of the development split and measure those of the test split."""
    valid, test = (
        match_entities(
            read_entities(folder / f"{split}-predicted.jsonl").documents,
            read_entities(folder / f"{split}-gold.jsonl").documents,
        )
        for split in ("dev", "test")
    )
    fitted = EntityCalibrator().fit(valid)
    found = {}
    for name, entities in (("own score", test), ("calibrated", fitted.transform(test))):
        audit = audit_entities(entities, bootstrap=bootstrap).audit
        found[name] = {
            key: [audit[key].value, audit[key].low, audit[key].high]
            for key in (*SHOWN, "entity_f1", "missed_entities")
        }
    ratio = found["calibrated"]["ece"][0] / found["own score"]["ece"][0]
    return {
        "settings": json.loads((folder / "settings.json").read_text()),
        "entities": len(test.predicted), "documents": test.documents,
        "shrinkage": fitted.shrinkage_, "weights": fitted.weights_.tolist(),
        "types": fitted.types_, **found, "ece ratio": ratio,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with ner/CORPUS/*.conll")
    parser.add_argument("--encoder", type=Path, help="folder of a pretrained encoder")
    parser.add_argument("--corpora", default="conll2003,wnut17")
    parser.add_argument("--tools", default="spacy,huggingface")
    parser.add_argument("--train", type=int, default=3000, help="sentences to train on")
    parser.add_argument("--evaluate", type=int, default=2000, help="sentences of dev and test")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument("--keep", type=Path, required=True, help="folder of the tools' outputs")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    made = {}
    for corpus in args.corpora.split(","):
        source = args.data / "ner" / corpus
        train = sentences(source / "train.conll", args.train)
        for tool in args.tools.split(","):
            folder = args.keep / f"{tool}-{corpus}"
            if not (folder / "test-gold.jsonl").exists():
                folder.mkdir(parents=True, exist_ok=True)
                make = spacy_tool if tool == "spacy" else huggingface_tool
                more = () if tool == "spacy" else (args.encoder,)
                records = make(train, args.epochs, *more)
                for split in ("dev", "test"):
                    part = sentences(source / f"{split}.conll", args.evaluate)
                    write_entities(list(records(part)), folder / f"{split}-predicted.jsonl")
                    write_entities(list(gold_records(part)), folder / f"{split}-gold.jsonl")
                settings = {k: getattr(args, k) for k in ("train", "evaluate", "epochs")}
                (folder / "settings.json").write_text(json.dumps(settings))
            made[f"{tool}, {corpus}"] = found = measure(folder, args.bootstrap)
            print(f"{tool}, {corpus}: {found['entities']} entities, ECE ratio "
                  f"{found['ece ratio']:.2f}")  # fmt: skip
            for name in ("own score", "calibrated"):
                print(f"  {name:12}", {key: round(v[0], 4) for key, v in found[name].items()})
    if args.json:
        content = {"tools": made, "circumstances": circumstances()}
        args.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
