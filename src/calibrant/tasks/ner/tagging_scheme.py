"""Find out whether a fine-tuned tagger uses IOB1: B- only separates entities that touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from calibrant.tasks.encoders.fine_tuned import FineTuned, most_pieces
from calibrant.tasks.label_matching import usual_spelling
from calibrant.tasks.language.sentences import Sentence

if TYPE_CHECKING:
    from transformers import BatchEncoding

__all__ = ["IOB1_NOTE", "begins_inside"]

IOB1_NOTE = (
    "The model begins entities with I- (IOB1), so its B- and I- are read as one: entities of one "
    "type that touch become one. --scheme bio reads them as they are."
)
_SENTENCES, _BATCH = 256, 16  # With entities: enough to see which tag begins them.
_CLEARLY, _LEAST = 3, 4  # Times as many I- as B-, and more than so many.


def begins_inside(
    own: FineTuned, tags: Sequence[str], sentences: Iterable[Sentence], max_length: int
) -> bool:
    """Return whether a tagger with these ``tags`` of its classes begins most entities with I-.

    The names show it where some types have both tags and others only I-: IOB1 data need not have a
    B- of every type. Otherwise the first words of the entities of the corpus show it, among those
    whose type the model finds.
    """
    first, inside = ({tag[2:] for tag in tags if tag[:2] == letter} for letter in ("B-", "I-"))
    letters = {name[0] for name in usual_spelling(own.classes) if name[1:2] == "-"}
    if not first or not letters <= {"B", "I"}:
        return False  # Tags of I- alone, which in_tags_of handles, or of BILOU and its relatives.
    if inside - first:
        return True
    found = [letter for s in _begun(own, tags, sentences, max_length) for letter in s]
    return found.count("I") > max(_CLEARLY * found.count("B"), _LEAST)


def _begun(
    own: FineTuned, tags: Sequence[str], sentences: Iterable[Sentence], max_length: int
) -> Iterator[list[str]]:
    """Yield the first letters of the tags that the model gives to first words of entities."""
    import torch

    device = next(own.model.parameters()).device
    longest = min(max_length, most_pieces(own.model.config) or max_length)
    having = (s for s in sentences if any(tag[:2] == "B-" for tag in s.tags))
    waiting = islice(having, _SENTENCES)
    while part := list(islice(waiting, _BATCH)):
        batch: BatchEncoding = own.reader(
            [list(s.words) for s in part],
            is_split_into_words=True,
            truncation=True,
            max_length=longest,
            padding=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            best = own.model(**batch.to(device)).logits.argmax(-1).tolist()
        for row, sentence in enumerate(part):
            places = {word: k for k, word in reversed([*enumerate(batch.word_ids(row))])}
            starts = [i for i, tag in enumerate(sentence.tags) if tag[:2] == "B-" and i in places]
            found = [(tags[best[row][places[i]]], sentence.tags[i]) for i in starts]
            yield [own_tag[0] for own_tag, tag in found if own_tag[2:] == tag[2:]]
