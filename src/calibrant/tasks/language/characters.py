"""Kinds of characters, as insides of classes for regular expressions, and abbreviations."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

__all__ = [
    "ABBREVIATIONS",
    "BEFORE_NAMES",
    "BLANK",
    "CAPITALS",
    "JAMO",
    "JOINER",
    "UNSPACED",
    "VIRAMA",
    "marks",
]

# Spaces that Python does not count as space: zero-width ones, direction and byte order marks.
BLANK = r"\s\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
CAPITALS = "A-ZÀ-ÖØ-ÞŁŚŠŹŻŽČĆĐÇĞİŐŰΑ-ΩА-ЯЁЄІЇ"
JAMO = r"[\u1100-\u115f\ua960-\ua97c]+[\u1160-\u11ff\ud7b0-\ud7fb]*"  # Letters of one syllable.
JOINER = "\u200d"
VIRAMA = "\u1039\u17d2"  # Joins the next consonant to the one before: Myanmar, Khmer.
# Scripts that write no space between words: ideographs, kana, bopomofo, and those of South-East
# Asia. Hangul does write spaces.
UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u30ff\u3100-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U0001aff0-\U0001afff\U0001b000-\U0001b16f\U00020000-\U000323af"
    "\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081"
    "\u108e\ua9e0-\ua9e4\ua9e7-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f"
    "\u1780-\u17b3\u17d7\u17dc\u1950-\u197f\u1980-\u19ab\u19b0-\u19c9\u1a20-\u1a54\uaa80-\uaadf"
)
# Besides Unicode's marks, these belong to the character before them: non-joiners, soft hyphens,
# skin tones, the tags of flags, and the vowel AM of Thai and Lao.
_MORE_MARKS = "\xad\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u0e33\u0eb3"

# Abbreviations that end in a full stop, in lower case and without it; English and a few others.
_BEFORE_NAMES = """
mr mrs ms mx dr prof st ste sen rep gov gen col lt capt cmdr sgt maj adm rev hon pres supt hr fr
mme mlle messrs fig figs eq eqs ref refs sec nos vol vols pp eds chap art vs cf approx ca e.g i.e
viz nr bzw mt ft sra srta sres dra drs profa avda núm núms fls pág págs excmo exmo exma mgr ul
"""
_OTHERS = """
inc corp co ltd bros jr sr etc al dept univ assn jan feb mar apr jun jul aug sep sept oct nov dec
ala ariz ark calif colo conn fla ga ill kan ky md mass mich minn mont neb nev okla ore pa tenn tex
va vt wash wis wyo a.m p.m u.s u.k u.n ph.d blvd rd hwy ave usw z.b d.h cie ltda stb
"""
# These are followed by a name or a number, so that no sentence ends with them.
BEFORE_NAMES = frozenset(_BEFORE_NAMES.split())
ABBREVIATIONS = BEFORE_NAMES | frozenset(_OTHERS.split())


@cache
def marks() -> str:
    """Return Unicode's marks without the two that join consonants, and a few similar characters."""
    found = [
        code
        for block in (range(0x300, 0x20000), range(0xE0100, 0xE01F0))
        for code in block
        if unicodedata.category(chr(code))[0] == "M" and chr(code) not in VIRAMA
    ]
    starts = [code for code, before in zip(found, [-1, *found], strict=False) if code != before + 1]
    ends = [code for code, after in zip(found, [*found[1:], -1], strict=True) if after != code + 1]
    ranges = (f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))
    return "".join(map(_escaped, ranges)) + _MORE_MARKS


def _escaped(part: str) -> str:
    return f"{re.escape(part[0])}-{re.escape(part[2])}"
