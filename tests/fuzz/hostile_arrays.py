"""Damaged npz and safetensors files of predictions."""

import io
import json
import struct
import zipfile

import numpy as np
from content import arrays, npz_bytes, safetensors_bytes, safetensors_parts
from nasty import NAMES, VALUES, as_bytes, mutate_bytes, mutated_json


def hostile_npz(random, content):
    """The bytes of an npz with something odd in it, and its suffix."""
    members = arrays(content)
    if content.names is not None:
        members["label_names"] = np.array(content.names)
    for _ in range(random.choice((0, 1, 1, 2))):
        name = random.choice(list(members))
        members[name] = _odd_array(random, members[name])
    kind = random.randrange(10)
    if kind < 4:
        data = npz_bytes(members, compressed=random.random() < 0.5)
    else:
        data = _archive(random, members)
    if kind in (0, 4, 5):
        data = mutate_bytes(random, data)
    elif kind in (6, 7):
        data = changed_flags(random, data)
    return data, "npz"


def _odd_array(random, array):
    n = len(array) if array.ndim else 1
    made = (
        lambda: array.astype(
            random.choice(("f2", "f4", "f8", "i1", "i8", "u8", ">f8", "?", "c16"))
        ),
        lambda: array.astype(random.choice(("U9", "S9"))),
        lambda: np.asfortranarray(array),
        lambda: array[..., None],
        lambda: array.reshape(-1),
        lambda: array[:0],
        lambda: np.array(random.choice((0, 1.5, "a", b"a"))),
        lambda: np.zeros(n, "M8[s]"),
        lambda: np.zeros(n, "m8[D]"),
        lambda: np.zeros((n, 0)),
        lambda: np.zeros((n, 0, 3)),
        lambda: np.zeros((n, 2, 2, 2)),
        lambda: np.zeros(n, [("a", "f8"), ("b", "i4")]),
        lambda: np.zeros(n, "V0"),
        lambda: np.full(array.shape, np.nan),
        lambda: np.full(array.shape, np.inf),
        lambda: np.full(array.shape, -1),
        lambda: np.full(array.shape, 2**62),
        lambda: np.full(array.shape, "9" * 50),
        lambda: np.full(array.shape, None, object),
        lambda: np.full(array.shape, "\ud800"),
        lambda: array[: max(1, n // 2)],
        lambda: np.concatenate([array, array]),
    )
    try:
        return random.choice(made)()
    except (ValueError, TypeError, RuntimeError, OverflowError, IndexError):  # None such.
        return np.zeros(0)


def _archive(random, members):
    """Member by member, some with a header that is not true."""
    file = io.BytesIO()
    pack = random.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(file, "w", pack) as archive:
        for name, array in members.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=True)
            content = member.getvalue()
            kind = random.randrange(14)
            if kind == 0:
                content = mutate_bytes(random, content)
            elif kind == 1:
                content = _claimed(random) + content[128:]
            elif kind == 2:
                content = content[: random.randrange(len(content))]
            elif kind == 3:
                content += b"more"
            elif kind == 4:
                name = random.choice(NAMES[:18])
            archive.writestr(f"{as_bytes(name).decode('utf-8', 'replace')}.npy", content)
        if random.random() < 0.2:
            archive.writestr(random.choice(("readme.txt", "folder/", "../x.npy", ".npy")), b"hello")
    return file.getvalue()


def _claimed(random):
    shape = random.choice(
        (
            (10**12,),
            (10**12, 3),
            (10**12, 0, 3),
            (0, 10**12),
            (2**63, 2),
            (-1, 3),
            (1,) * 40,
            (3, 3),
        )
    )
    dtype = random.choice(
        ("<f8", "<i8", "|O", "<U0", "|V0", "<U999999999", "f", "?", "nonsense", "<m8")
    )
    text = repr({"descr": dtype, "fortran_order": random.random() < 0.3, "shape": shape})
    if random.random() < 0.2:
        text = random.choice(("{", "[]", "1", "(" * 300, "__import__('os')", "{'descr': 1}"))
    text = text.encode() + b"\n"
    version = random.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text


def changed_flags(random, data):
    """Other methods of compression, encryption, sizes and names in the headers of the archive."""
    data = bytearray(data)
    change = random.choice(((6, 8, b"\x01\x00"), (8, 10, b"\x61\x00"), (8, 10, b"\x08\x00"),
                            (22, 24, b"\xff\xff\xff\x7f"), (18, 20, b"\x01\x00\x00\x00"),
                            (14, 16, b"\x00\x00\x00\x00"), (30, 46, b"\xff\xfe")))  # fmt: skip
    for signature, place in ((b"PK\x03\x04", change[0]), (b"PK\x01\x02", change[1])):
        at = data.find(signature)
        while at >= 0:
            if random.random() < 0.7:
                data[at + place : at + place + len(change[2])] = change[2]
            at = data.find(signature, at + 1)
    return bytes(data)


def hostile_safetensors(random, content):
    """The bytes of a safetensors file with something odd in it, and its suffix."""
    header, data = safetensors_parts(content)
    kind = random.randrange(8)
    if kind < 4:
        text = as_bytes(mutated_json(random, header, random.choice((1, 1, 2))))
    elif kind == 4:
        metadata = {random.choice(("texts", "label_names")): random.choice(VALUES)}
        text = as_bytes(json.dumps({**header, "__metadata__": metadata}))
    elif kind == 5:
        name = random.choice([n for n in header if n != "__metadata__"])
        place = random.choice(
            ([0, 2**62], [-8, 0], [8, 0], [0.0, 8.0], [0], [None, 8], [0, 10**30])
        )
        shape = random.choice(([10**12, 0], [-1], [2**63, 2], [1.5], ["2"], [], [10**6], [True]))
        entry = {
            **header[name],
            random.choice(("data_offsets", "shape")): random.choice((place, shape)),
        }
        text = as_bytes(json.dumps({**header, name: entry}))
    else:
        text = as_bytes(json.dumps(header))
    made = safetensors_bytes(text, data)
    if kind == 6:
        made = mutate_bytes(random, made)
    elif kind == 7:
        claimed = random.choice((0, 1, 2**63, 10**8, len(text) - 1, len(text) + 8))
        made = claimed.to_bytes(8, "little") + made[8:]
    return made, "safetensors"
