"""How well raw text is cut as a corpus is: words, sentences, and what it costs a tagger.

python benchmarks/raw_text.py --json results/raw-text-cpu.json
python benchmarks/raw_text.py --runs RUN RUN2                  # finished 'calibrant train'

Words: the test split of each corpus is detokenised, cut by the splitter that its training split
chooses, and compared with the corpus' words (F1 of their places); beside it the splitter of the
first versions. "other reading" is the same F1 if every sign that is unsure were spaced the other
way. Sentences: ten consecutive test sentences are joined to a text, which is cut again; recall is
of all ends of sentences and of those with a mark (. ! ?), as titles and rows of tables have none.
Spaces: real texts are cut by the Penn-like splitter, detokenised, and compared with what they were.

Runs: the F1 and the risk of what is accepted at a target of 10 % on their test split, with the
corpus' words, as raw sentences, and as texts of ten sentences, cut into sentences or left whole;
and as the first versions did it: one splitter, texts whole, judged by the corpus' words.
"""

import argparse
import gzip
import json
import re
from pathlib import Path

import numpy as np

import calibrant
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import circumstances
from calibrant.tasks.language.detokenise import Detokeniser
from calibrant.tasks.language.sentence_splitter import split_sentences
from calibrant.tasks.language.splitter_choice import restored
from calibrant.tasks.language.words import FIRST, SPLITTERS
from calibrant.tasks.ner.corpora import CORPORA
from calibrant.tasks.ner.corpus import load_corpus
from calibrant.tasks.ner.predictor import Predictor
from calibrant.tasks.reading.catalogue import find_file

TEN = 10
TARGET = 0.1
MARK = re.compile(r"[.!?][\"')]*$")
UNSURE = "-‐‑–/+&=_~@^*<>"


def word_f1(sentences, detokeniser, splitter):
    same = both = 0
    for sentence in sentences:
        made = detokeniser.restore(sentence.words)
        found = {(word.start, word.end) for word in splitter.split(made.text)}
        same += len(found & set(made.places))
        both += len(found) + len(made.places)
    return 2 * same / both


def fitting(sentences, detokeniser, splitter):
    """The share of entities that are made of whole words."""
    from calibrant.tasks.language.marked_text import from_spans

    marked = [restored(sentence, detokeniser)[0] for sentence in sentences]
    unfit = sum(sum(from_spans(m.text, m.spans, splitter=splitter).unfit) for m in marked)
    return 1 - unfit / max(1, sum(len(m.spans) for m in marked))


def joined(sentences, detokeniser):
    """Texts of ten sentences, with the places of these and of their entities."""
    for i in range(0, len(sentences), TEN):
        text, places, spans = "", [], []
        for sentence in sentences[i : i + TEN]:
            marked = restored(sentence, detokeniser)[0]
            text += " " if text else ""
            spans += [(len(text) + s, len(text) + e, kind) for s, e, kind in marked.spans]
            places.append((len(text), len(text) + len(marked.text)))
            text += marked.text
        yield text, places, spans


def sentence_numbers(sentences, detokeniser):
    right = made = true = marked = marked_right = 0
    for text, places, _ in joined(sentences, detokeniser):
        found = {end for _, end in split_sentences(text)[:-1]}
        expected = {end for _, end in places[:-1]}
        with_mark = {end for end in expected if MARK.search(text, max(0, end - 3), end)}
        right, made, true = right + len(found & expected), made + len(found), true + len(expected)
        marked += len(with_mark)
        marked_right += len(with_mark & found)
    return right / max(1, made), right / max(1, true), marked_right / max(1, marked)


def corpus_row(name, directory):
    corpus = load_corpus(name, directory)
    cutting, learned = corpus.cutting, corpus.detokeniser
    flipped = "".join(sign for sign in UNSURE if sign not in learned.cuts)
    other = Detokeniser(flipped + "".join(c for c in learned.cuts if c in ".,:"), learned.dense)
    precision, recall, after_mark = sentence_numbers(corpus.test, learned)
    return {
        "corpus": name,
        "splitter": cutting.splitter.name,
        "words": word_f1(corpus.test, learned, cutting.splitter),
        "other_reading": word_f1(corpus.test, other, cutting.splitter),
        "words_first": word_f1(corpus.test, learned, FIRST),
        "entities": fitting(corpus.test, learned, cutting.splitter),
        "entities_first": fitting(corpus.test, learned, FIRST),
        "unsure_gaps": cutting.unsure,
        "sentences": cutting.sentences,
        "sentence_precision": precision,
        "sentence_recall": recall,
        "sentence_recall_after_mark": after_mark,
    }


def spaces_row(name, texts):
    """How often the gap between two words is what it was in real text."""
    penn, right, gaps = SPLITTERS["penn"], 0, 0
    lines = [line for text in texts for line in text.split("\n") if re.search(r"\w+ \w+", line)]
    cut = [(line, penn.split(line)) for line in lines]
    learned = Detokeniser.learn([word.text for word in words] for _, words in cut)
    for _, words in cut:
        made = learned.restore([word.text for word in words]).places
        for i in range(1, len(words)):
            touches = words[i - 1].end == words[i].start
            right += touches == (made[i - 1][1] == made[i][0])
            gaps += 1
    return {"texts": name, "lines": len(lines), "gaps": gaps, "gaps_right": right / gaps}


def real_texts(directory):
    path = find_file("20newsgroups/test.jsonl.gz", "text", directory)
    with gzip.open(path, "rt") as file:
        yield "20newsgroups", [json.loads(line)["text"] for _, line in zip(range(300), file)]  # noqa: B905
    path = find_file("clinc150/test.jsonl", "text", directory)
    yield "clinc150", [json.loads(line)["text"] for line in path.read_text().splitlines()]


def run_rows(folder, directory):
    recipe = Recipe.from_dict(json.loads((folder / "recipe.json").read_text()))
    corpus = load_corpus(recipe.data, directory, files=recipe.files)
    predictor = calibrant.load_run(folder, device="cpu")
    one = [restored(sentence, corpus.detokeniser)[0] for sentence in corpus.test]
    words = [list(sentence.words) for sentence in corpus.test]
    places = [corpus_spans(sentence) for sentence in corpus.test]
    ten = list(joined(corpus.test, corpus.detokeniser))
    yield "corpus' words", numbers(predictor, words, places, tokens=True)
    raw = [m.text for m in one], [m.spans for m in one]
    yield "raw sentences", numbers(predictor, *raw)
    yield "raw sentences, first versions", numbers(as_before(predictor), *raw)
    texts, spans = [text for text, _, _ in ten], [marked for _, _, marked in ten]
    yield "texts of ten, cut", numbers(predictor, texts, spans, sentences=True)
    yield "texts of ten, whole", numbers(predictor, texts, spans, sentences=False)
    yield "texts of ten, first versions", numbers(as_before(predictor), texts, spans)


def as_before(predictor):
    """One splitter for all corpora, texts left whole, judged by the corpus' words."""
    given = predictor._of_words
    return Predictor(
        predictor.model,
        predictor.tokenizer,
        predictor.labels,
        given.calibrator,
        given.valid,
        predictor.max_length,
    )


def corpus_spans(sentence):
    """The entities in the words joined by spaces."""
    from calibrant.tasks.language.detokenise import Restored
    from calibrant.tasks.ner.cut_text import given_words

    cut = given_words(list(sentence.words))
    places = tuple((word.start, word.end) for word in cut.sentences[0])
    return Restored(cut.text, places, 0).spans(sentence.tags)


def numbers(predictor, texts, spans, *, tokens=False, **options):
    least = predictor.threshold(TARGET, tokens=tokens).threshold
    made = predictor.predict(texts, tokens=tokens, **options)
    gold = {(i, *span) for i, part in enumerate(spans) for span in part}
    found = [
        (i, e.start, e.end, e.type, e.confidence) for i, p in enumerate(made) for e in p.entities
    ]
    right = np.array([entity[:4] in gold for entity in found], bool)
    sure = np.array([entity[4] >= least for entity in found], bool)
    return {
        "entity_f1": 2 * int(right.sum()) / max(1, len(found) + len(gold)),
        "found": len(found),
        "accepted": int(sure.sum()),
        "risk": float((sure & ~right).sum() / max(1, sure.sum())),
    }


def show(rows):
    for row in rows:
        cells = (f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print("  ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir")
    parser.add_argument("--runs", nargs="+", type=Path, default=[])
    parser.add_argument("--runs-only", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = {"corpora": [], "spaces": [], "runs": []}
    for name in [] if args.runs_only else CORPORA:
        result["corpora"].append(corpus_row(name, args.data_dir))
        show(result["corpora"][-1:])
    for name, texts in [] if args.runs_only else real_texts(args.data_dir):
        result["spaces"].append(spaces_row(name, texts))
        show(result["spaces"][-1:])
    for folder in args.runs:
        for title, found in run_rows(folder, args.data_dir):
            result["runs"].append({"run": folder.name, "input": title, **found})
            show(result["runs"][-1:])
    if args.json:
        args.json.write_text(json.dumps({**result, "circumstances": circumstances()}, indent=1))


if __name__ == "__main__":
    main()
