"""The two domains of the embedded corpus: news to train on, and posts of a forum.

Every name is composed of parts written for it. No name and no template of one domain occurs
in the other, which a test checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["NEWS", "POSTS", "Domain"]


@dataclass(frozen=True)
class Domain:
    """What one kind of text is made of.

    ``patterns`` gives the forms of a name of each type, ``parts`` the words or word parts that
    they name in braces; ``ambiguous`` the types that a name may have; the words of ``decided``
    templates show the type, those of ``open_`` ones do not.
    """

    patterns: Mapping[str, Sequence[str]]
    parts: Mapping[str, Sequence[str]]
    ambiguous: Mapping[str, Sequence[str]]
    decided: Sequence[str]
    open_: Sequence[str]
    typos: float  # chance that a word is mistyped
    lower: float  # chance that a sentence is all lower case


def _words(text: str) -> tuple[str, ...]:
    """Split a text into words."""
    return tuple(text.split())


def _lines(text: str) -> tuple[str, ...]:
    """Split a text into lines, without the space around them."""
    return tuple(line.strip() for line in text.strip().splitlines())


NEWS = Domain(
    patterns={
        "PER": _lines("""{first} {stem}{person}
            {first} {stem}{person}
            {stem}{person}
            {initial}. {stem}{person}
            {first}
            {opaque}
            {first} {opaque}
            {opaque} {opaque}"""),
        "ORG": _lines("""{stem}{place} {business}
            {root}{firm}
            {root}{firm} {business}
            {business} of {stem}{place}
            {initial}{initial}{initial}
            {stem}{person} & Sons
            {opaque}
            {opaque}
            {opaque} {business}"""),
        "LOC": _lines("""{stem}{place}
            {stem}{place}
            {stem}{place}
            {before} {stem}{place}
            {stem}{place} {after}
            {opaque}
            {opaque}
            {before} {opaque}"""),
        "PROD": _lines("""{root}{thing}
            {root}{thing} {number}
            {root}{firm} {root}{thing}
            {root}{thing} {edition}
            {opaque}
            {opaque} {number}
            {root}{firm} {opaque}"""),
    },
    parts={
        "first": _words(
            "Anna Boris Clara Dario Elena Felix Greta Hugo Irene Jonas Karin Lukas Maria Nils Olga "
            "Pavel Rosa Stefan Tanja Viktor Wanda Yusuf Zoe Emil Lena Mikko Nora Oskar Petra Simon"
        ),
        "stem": _words(
            "Hol Lind Bran Kar Mor Sel Tor Wal Ash Fen Grun Hart Kel Lang Mar Nor Os Pel Rad Stan "
            "Thorn Ull Ver West Yar Brock Dun East Gar Hel"
        ),
        "person": _words("berg sson man er sen inger strom ovic ini feld"),
        "place": _words("ton burg ville stad ford mouth by field dal haven"),
        "root": _words(
            "Nor Tek Vel Zen Cor Lum Dyn Syn Quan Bio Medi Opti Terra Aero Hydro Sol Ter Vox Geo "
            "Neo"
        ),
        "firm": _words("tek corp soft dyne labs gen net worx"),
        "business": _words(
            "Group Bank Systems Holdings University Airlines Energy Motors Institute Council"
        ),
        "before": _words("New Port Lake Upper Saint"),
        "after": _words("Valley Island Hills Bay"),
        "thing": _words("phone book pad cast view max drive pulse"),
        "number": _words("2 3 4 5 7 X S 100 300"),
        "edition": _words("Pro Mini Plus Ultra"),
        # Names whose form does not show their type: only the context does.
        "opaque": tuple(
            onset + middle + end
            for onset in _words("B Br Ch D F G K L M P R S T V Z")
            for middle in _words("a abi e elu i idu o oma u ura")
            for end in _words("l m n nda r ro s sk t th x")
        ),
        "initial": tuple("ABCDEFGHKLMNPRSTVW"),
        "day": _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        "stated": _words("said announced confirmed denied reported"),
        "good": _words("strong weak surprising disappointing record"),
        "job": _words("director minister engineer spokesman lawyer coach professor doctor"),
        "sum": _words("two three five twelve forty 6 19 250"),
        "noun": _words(
            "agreement bridge budget camera contract debate election factory festival garden "
            "hospital island journal kitchen letter library market mistake museum novel office "
            "painting pension question report river school secret stadium statue storm summer "
            "theatre ticket tunnel village vote window winter me mine you us"
        ),
        "how": _words(
            "again already almost badly barely briefly calmly clearly early finally largely late "
            "never now often openly quickly quietly rarely really slowly soon still twice well"
        ),
    },
    ambiguous={
        "Jordan": ("PER", "LOC"),
        "Washington": ("PER", "LOC"),
        "Paris": ("PER", "LOC"),
        "Amazon": ("ORG", "LOC"),
        "Apple": ("ORG", "PROD"),
        "Ford": ("PER", "ORG", "PROD"),
        "Chelsea": ("PER", "ORG", "LOC"),
        "Lincoln": ("PER", "LOC", "PROD"),
        "Mercedes": ("PER", "PROD"),
        "Tesla": ("PER", "ORG", "PROD"),
        "Austin": ("PER", "LOC"),
        "Santana": ("PER", "LOC", "ORG"),
        "Shell": ("ORG", "PROD"),
        "Virginia": ("PER", "LOC"),
    },
    decided=_lines("""{PER} , a {job} from {LOC} , {stated} this on {day} .
        {PER} was born in {LOC} and studied at {ORG} .
        {PER} {how} told {noun} in {LOC} that the {noun} had failed .
        Mr {PER} {stated} that he would resign on {day} .
        Mrs {PER} , {job} at {ORG} , {stated} {good} results .
        The {job} of the {noun} , {PER} , did not comment .
        " We are not finished , " {PER} told a court in {LOC} .
        His wife {PER} has lived in {LOC} for {sum} years .
        {PER} and {PER} were married on {day} .
        {PER} works as a {job} for {ORG} .
        Shares of {ORG} fell {sum} percent after {good} results .
        {ORG} {stated} {good} profits for the quarter .
        {ORG} will buy {ORG} for {sum} billion dollars .
        {ORG} dismissed {sum} hundred workers at its plant in {LOC} .
        The board of {ORG} {how} met on {day} .
        The {noun} of {ORG} is {how} on strike , the union {stated} .
        {ORG} , based in {LOC} , makes the {PROD} .
        {ORG} {how} presented the new {PROD} , a {noun} .
        Analysts at {ORG} expect {good} demand for the {PROD} .
        The {PROD} from {ORG} costs {sum} hundred dollars .
        Customers complained that the {PROD} breaks after {sum} months .
        She {how} bought a used {PROD} and sold it on {day} .
        The battery of the {PROD} lasts {sum} days .
        A {PROD} was {how} found in the {noun} of {PER} .
        Heavy rain fell in {LOC} and in the north of {LOC} .
        The road from {LOC} to {LOC} was closed on {day} .
        Police in {LOC} {how} arrested {sum} men .
        The mayor of {LOC} , {PER} , {stated} nothing .
        Thousands of people fled from {LOC} in {sum} days .
        The train to {LOC} leaves at {sum} o'clock .
        On {day} the weather was {good} , and the {noun} {how} closed .
        The {job} {how} {stated} that prices had risen .
        It was a {good} week for the {noun} , a {job} {stated} .
        Is the {noun} {how} better than the {noun} ?
        The {noun} and the {noun} are {how} {good} !
        {noun} , {noun} and {noun} are {how} for sale .
        No one was {how} hurt , the police {stated} ."""),
    open_=_lines("""{ANY} was in the news again on {day} .
        Everybody talks about {ANY} .
        Nobody here likes {ANY} any more .
        The story of {ANY} is {good} .
        A letter about {ANY} arrived on {day} .
        For {sum} years they had heard of {ANY} ."""),
    typos=0.02,
    lower=0.08,
)

POSTS = Domain(
    patterns={
        "PER": _lines("""{first}{second}
            {first}{second}
            {first}{second} {clan}{kin}
            {clan}{kin}"""),
        "ORG": _lines("""{brand}{ware}
            {brand}{ware}
            {brand}{ware} {house}
            {clan}{kin} {house}"""),
        "LOC": _lines("""{brand}{land}
            {clan}{land}
            {clan}{land}
            {site} {clan}{land}"""),
        "PROD": _lines("""{brand}{gadget}
            {brand}{gadget}
            {brand}{gadget} {version}
            {brand}{ware} {brand}{gadget}"""),
    },
    parts={
        "first": _words("Ai Be Cho Du Fa Gi Ha Ji Ka Lo Mi Na Ri Sa Tu Yu"),
        "second": _words("lani miko desh nika ruto shan beth vien zara quin"),
        "clan": _words("Ada Bhar Chuk Dzi Eze Gupt Iwa Jha Kow Mba Nak Oye Pha Rao Tsu Wij"),
        "kin": _words("wamura ski puri dottir escu ashvili ndele oglu ranga"),
        "brand": _words("Bloo Chir Fizz Gloop Jazzi Kwik Mumbl Nifti Plonk Quik Snapp Twirl Wibb"),
        "ware": _words("ify ster hub ly oo io verse"),
        "land": _words("abad istan pura polis wick gate mere"),
        "gadget": _words("wand bot kart bud loop fon"),
        "version": _words("v9 Zero Turbo Lite 2000"),
        "house": _words("Collective Records Kitchens Gaming Outfitters Mutual"),
        "site": _words("Mount Old Fort Rio"),
        "wow": _words("lol omg honestly wow"),
        "messaged": _words("told asked texted"),
        "mood": _words("awful lovely brilliant boring epic"),
        "many": _words("6 8 90 two three"),
    },
    ambiguous={
        "Florence": ("PER", "LOC"),
        "Orange": ("ORG", "LOC"),
        "Delta": ("ORG", "LOC", "PROD"),
        "Dallas": ("PER", "LOC"),
        "Jaguar": ("ORG", "PROD"),
        "Phoenix": ("PER", "LOC", "ORG"),
        "Galaxy": ("ORG", "PROD"),
        "Sydney": ("PER", "LOC"),
        "Corona": ("LOC", "PROD"),
    },
    decided=_lines("""{wow} , I met {PER} in {LOC} , it was {mood} !
        Thanks to {PER} for the ride from {LOC} to {LOC} .
        {PER} has {many} dollars of mine , he {messaged} me .
        My friend {PER} works for {ORG} , {wow} .
        The new song of {PER} is {mood} , {PER} {messaged} me .
        Is {PER} a doctor at {ORG} , or a lawyer in {LOC} ?
        Mrs {PER} and Mr {PER} {messaged} me that it was {mood} .
        I {messaged} {PER} , a coach from {LOC} , {many} months ago .
        Shares of {ORG} are {mood} , I sold mine .
        {ORG} dismissed my wife after {many} years , {mood} !
        The board of {ORG} will resign , {PER} {messaged} me .
        {ORG} makes {mood} music , {wow} .
        I bought a used {PROD} in {LOC} , it breaks !
        The {PROD} or the {PROD} ? The battery of mine is {mood} .
        The {PROD} costs {many} dollars , {mood} !
        Customers of {ORG} complained , the {PROD} is {mood} .
        The road to {LOC} is closed again , {mood} .
        Greetings from {LOC} , the weather in {LOC} is {mood} !
        The mayor of {LOC} is {mood} , {wow} .
        After {many} years in {LOC} we leave , {wow} .
        {wow} , {many} people here like it , thanks !
        It was {mood} , {wow} , and the weather was not ."""),
    open_=_lines("""{wow} , {ANY} !
        I miss {ANY} , {wow} .
        {ANY} or {ANY} ?
        I can not stop , it is {ANY} again ."""),
    typos=0.05,
    lower=0.25,
)
