"""News: the domain that the embedded corpus trains on."""

from __future__ import annotations

from calibrant.tasks.language.grammar.domain import Domain, lines, words

__all__ = ["NEWS"]

NEWS = Domain(
    patterns={
        "PER": lines("""{first} {stem}{person}
            {first} {stem}{person}
            {stem}{person}
            {initial}. {stem}{person}
            {first}
            {opaque}
            {first} {opaque}
            {opaque} {opaque}"""),
        "ORG": lines("""{stem}{place} {business}
            {root}{firm}
            {root}{firm} {business}
            {business} of {stem}{place}
            {initial}{initial}{initial}
            {stem}{person} & Sons
            {opaque}
            {opaque}
            {opaque} {business}"""),
        "LOC": lines("""{stem}{place}
            {stem}{place}
            {stem}{place}
            {before} {stem}{place}
            {stem}{place} {after}
            {opaque}
            {opaque}
            {before} {opaque}"""),
        "PROD": lines("""{root}{thing}
            {root}{thing} {number}
            {root}{firm} {root}{thing}
            {root}{thing} {edition}
            {opaque}
            {opaque} {number}
            {root}{firm} {opaque}"""),
    },
    parts={
        "first": words(
            "Anna Boris Clara Dario Elena Felix Greta Hugo Irene Jonas Karin Lukas Maria Nils Olga "
            "Pavel Rosa Stefan Tanja Viktor Wanda Yusuf Zoe Emil Lena Mikko Nora Oskar Petra Simon"
        ),
        "stem": words(
            "Hol Lind Bran Kar Mor Sel Tor Wal Ash Fen Grun Hart Kel Lang Mar Nor Os Pel Rad Stan "
            "Thorn Ull Ver West Yar Brock Dun East Gar Hel"
        ),
        "person": words("berg sson man er sen inger strom ovic ini feld"),
        "place": words("ton burg ville stad ford mouth by field dal haven"),
        "root": words(
            "Nor Tek Vel Zen Cor Lum Dyn Syn Quan Bio Medi Opti Terra Aero Hydro Sol Ter Vox Geo "
            "Neo"
        ),
        "firm": words("tek corp soft dyne labs gen net worx"),
        "business": words(
            "Group Bank Systems Holdings University Airlines Energy Motors Institute Council"
        ),
        "before": words("New Port Lake Upper Saint"),
        "after": words("Valley Island Hills Bay"),
        "thing": words("phone book pad cast view max drive pulse"),
        "number": words("2 3 4 5 7 X S 100 300"),
        "edition": words("Pro Mini Plus Ultra"),
        # Names whose form does not tell their type: only the context does.
        "opaque": tuple(
            onset + middle + end
            for onset in words("B Br Ch D F G K L M P R S T V Z")
            for middle in words("a abi e elu i idu o oma u ura")
            for end in words("l m n nda r ro s sk t th x")
        ),
        "initial": tuple("ABCDEFGHKLMNPRSTVW"),
        "day": words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        "said": words("said announced confirmed denied reported"),
        "good": words("strong weak surprising disappointing record"),
        "job": words("director minister engineer spokesman lawyer coach professor doctor"),
        "sum": words("two three five twelve forty 6 19 250"),
        "noun": words(
            "agreement bridge budget camera contract debate election factory festival garden "
            "hospital island journal kitchen letter library market mistake museum novel office "
            "painting pension question report river school secret stadium statue storm summer "
            "theatre ticket tunnel village vote window winter me mine you us"
        ),
        "how": words(
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
    decided=lines("""{PER} , a {job} from {LOC} , {said} this on {day} .
        {PER} was born in {LOC} and studied at {ORG} .
        {PER} {how} told {noun} in {LOC} that the {noun} had failed .
        Mr {PER} {said} that he would resign on {day} .
        Mrs {PER} , {job} at {ORG} , {said} {good} results .
        The {job} of the {noun} , {PER} , did not comment .
        " We are not finished , " {PER} told a court in {LOC} .
        His wife {PER} has lived in {LOC} for {sum} years .
        {PER} and {PER} were married on {day} .
        {PER} works as a {job} for {ORG} .
        Shares of {ORG} fell {sum} percent after {good} results .
        {ORG} {said} {good} profits for the quarter .
        {ORG} will buy {ORG} for {sum} billion dollars .
        {ORG} dismissed {sum} hundred workers at its plant in {LOC} .
        The board of {ORG} {how} met on {day} .
        The {noun} of {ORG} is {how} on strike , the union {said} .
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
        The mayor of {LOC} , {PER} , {said} nothing .
        Thousands of people fled from {LOC} in {sum} days .
        The train to {LOC} leaves at {sum} o'clock .
        On {day} the weather was {good} , and the {noun} {how} closed .
        The {job} {how} {said} that prices had risen .
        It was a {good} week for the {noun} , a {job} {said} .
        Is the {noun} {how} better than the {noun} ?
        The {noun} and the {noun} are {how} {good} !
        {noun} , {noun} and {noun} are {how} for sale .
        No one was {how} hurt , the police {said} ."""),
    open_=lines("""{ANY} was in the news again on {day} .
        Everybody talks about {ANY} .
        Nobody here likes {ANY} any more .
        The story of {ANY} is {good} .
        A letter about {ANY} arrived on {day} .
        For {sum} years they had heard of {ANY} ."""),
    typos=0.02,
    lower=0.08,
)
