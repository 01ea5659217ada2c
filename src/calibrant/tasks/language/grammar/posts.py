"""Posts of a forum: the domain that the embedded corpus does not train on."""

from __future__ import annotations

from calibrant.tasks.language.grammar.domain import Domain, lines, words

__all__ = ["POSTS"]

POSTS = Domain(
    patterns={
        "PER": lines("""{first}{second}
            {first}{second}
            {first}{second} {clan}{kin}
            {clan}{kin}"""),
        "ORG": lines("""{brand}{ware}
            {brand}{ware}
            {brand}{ware} {house}
            {clan}{kin} {house}"""),
        "LOC": lines("""{brand}{land}
            {clan}{land}
            {clan}{land}
            {site} {clan}{land}"""),
        "PROD": lines("""{brand}{gadget}
            {brand}{gadget}
            {brand}{gadget} {version}
            {brand}{ware} {brand}{gadget}"""),
    },
    parts={
        "first": words("Ai Be Cho Du Fa Gi Ha Ji Ka Lo Mi Na Ri Sa Tu Yu"),
        "second": words("lani miko desh nika ruto shan beth vien zara quin"),
        "clan": words("Ada Bhar Chuk Dzi Eze Gupt Iwa Jha Kow Mba Nak Oye Pha Rao Tsu Wij"),
        "kin": words("wamura ski puri dottir escu ashvili ndele oglu ranga"),
        "brand": words("Bloo Chir Fizz Gloop Jazzi Kwik Mumbl Nifti Plonk Quik Snapp Twirl Wibb"),
        "ware": words("ify ster hub ly oo io verse"),
        "land": words("abad istan pura polis wick gate mere"),
        "gadget": words("wand bot kart bud loop fon"),
        "version": words("v9 Zero Turbo Lite 2000"),
        "house": words("Collective Records Kitchens Gaming Outfitters Mutual"),
        "site": words("Mount Old Fort Rio"),
        "wow": words("lol omg honestly wow"),
        "told": words("told asked texted"),
        "mood": words("awful lovely brilliant boring epic"),
        "many": words("6 8 90 two three"),
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
    decided=lines("""{wow} , I met {PER} in {LOC} , it was {mood} !
        Thanks to {PER} for the ride from {LOC} to {LOC} .
        {PER} has {many} dollars of mine , he {told} me .
        My friend {PER} works for {ORG} , {wow} .
        The new song of {PER} is {mood} , {PER} {told} me .
        Is {PER} a doctor at {ORG} , or a lawyer in {LOC} ?
        Mrs {PER} and Mr {PER} {told} me that it was {mood} .
        I {told} {PER} , a coach from {LOC} , {many} months ago .
        Shares of {ORG} are {mood} , I sold mine .
        {ORG} dismissed my wife after {many} years , {mood} !
        The board of {ORG} will resign , {PER} {told} me .
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
    open_=lines("""{wow} , {ANY} !
        I miss {ANY} , {wow} .
        {ANY} or {ANY} ?
        I can not stop , it is {ANY} again ."""),
    typos=0.05,
    lower=0.25,
)
