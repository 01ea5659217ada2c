"""What breaks readers: odd values, odd bytes, and ways to put them into something sound."""

import json

MARK = "@@here@@"
# Values as JSON writes them, so that numbers may be larger than any type and lists without end.
VALUES = (
    "0", "-1", "1", "2.5", "-0.0", "1e308", "-1e308", "1e-320", "1e400", "NaN", "Infinity",
    "-Infinity", str(2**31), str(2**63), str(-(2**63) - 1), "1" + "0" * 20, "1" + "0" * 400,
    "9" * 5000, "true", "false", "null", '""', '" "', '"abc"', '"0"', '"-100"', '"1.5"', '"nan"',
    '"\\ud800"', '"\\u0000"', '"é"', '"\\u001b[31m"', '"a\\nb"', '"' + "x" * 300 + '"', "[]",
    "[[]]", "[1, 2]", "[null]", '["a", "b"]', "{}", '{"a": 1}', '{"": {"": []}}', "[" * 100_000,
    "[" * 99 + "]" * 99, "[" * 900 + "]" * 900, '{"a":' * 100_000, "[1,", "'a'", "1_0", "0x10",
    "01", "+1", ".5", "1.", "\ud800",
)  # fmt: skip
CELLS = (
    "", " ", "0", "-1", "1e400", "nan", "inf", "-inf", "1e-320", "1_0", "0x1", "१", "½", "²", "−1",
    "1,5", "1;5", '"', '""', '"a', 'a"b', "a\nb", "a\rb", "\x00", "\x1b[31m", "\ufeff1", "\u2028",
    "9" * 19, "9" * 5000, "-100", "-100.0", "1.0", "2.50", "True", "None", "O", "=1+1", "\ud800",
    "x" * 140_000, "é", "\t1", " 1 ", "1 2",
)  # fmt: skip
NAMES = (
    "", " ", "label", "labels", "logits", "logit", "probs", "probabilities", "logits_0", "logits_9",
    "logits_" + "9" * 30, "logits:a", "probabilities:b", "label_names", "sentence", "position",
    "a b", "é", "\x00", "\ud800", "x" * 300, "\n", "\x1b[2J", "__metadata__", "../up", "logits_٣",
)  # fmt: skip


def mutate_bytes(random, content):
    """Damage without a thought for the format."""
    content = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5, 20))):
        size, at = len(content), random.randrange(len(content) + 1)
        some = random.choice((1, 2, 4, 8, 64))
        kind = random.randrange(8)
        if kind == 0 and size:
            content[min(at, size - 1)] ^= 1 << random.randrange(8)
        elif kind == 1 and size:
            content[min(at, size - 1)] = random.choice((0, 10, 13, 34, 44, 91, 123, 127, 255))
        elif kind == 2:
            del content[at:]
        elif kind == 3:
            del content[at : at + some]
        elif kind == 4:
            content[at:at] = content[at : at + some]
        elif kind == 5:
            content[at:at] = random.randbytes(some)
        elif kind == 6:
            content[at : at + some] = bytes(min(some, max(0, size - at)))
        else:
            content[at : at + some] = b"\xff" * min(some, max(0, size - at))
    return bytes(content)


def mutated_json(random, value, times=1):
    """The text of ``value`` with something odd in it at ``times`` places."""
    for _ in range(times):
        value = _with_mark(random, value, random.choice(("value", "value", "value", "key", "drop")))
    text = json.dumps(value)
    while f'"{MARK}"' in text:
        text = text.replace(f'"{MARK}"', random.choice(VALUES), 1)
    return text


def _with_mark(random, value, how):
    """The same with a mark in place of a part that is chosen at random."""
    if not isinstance(value, (dict, list)) or not value or random.random() < 0.15:
        return MARK
    if isinstance(value, list):
        value = list(value)
        at = random.randrange(len(value))
        if how == "drop" and random.random() < 0.3:
            del value[at]
        else:
            value[at] = _with_mark(random, value[at], how)
        return value
    value = dict(value)
    at = random.choice(list(value))
    if how == "drop" and random.random() < 0.3:
        del value[at]
    elif how == "key" and random.random() < 0.3:
        value[random.choice(NAMES)] = value.pop(at)
    else:
        value[at] = _with_mark(random, value[at], how)
    return value


def as_bytes(text):
    """UTF-8, and half characters as Python keeps them: not UTF-8 any more."""
    return text.encode("utf-8", "surrogatepass")
