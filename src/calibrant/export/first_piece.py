"""Leave out what a text classifier computes and never reads: the last layer of all pieces but one.

An encoder ends in layers that treat each piece by itself (products with weights, sums, activations,
normalisation), and the head of a text classifier reads the first piece alone. Slicing the pieces
before these layers, not after them, gives the same numbers. It saves about an eighth of a six-layer
encoder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.extras import require

__all__ = ["read_first_piece_alone"]

_ALONE = ("LayerNormalization", "MatMul", "Add", "Mul", "Div", "Gelu", "Erf", "Tanh", "Relu")
_FIRST = "first_piece"
_LARGEST = 1 << 31  # A larger model has its weights in files beside it.


def read_first_piece_alone(path: Path, output: Path) -> bool:
    """Write an ONNX model whose head reads the first piece alone; return whether it is one."""
    if path.stat().st_size >= _LARGEST or list(path.parent.glob(f"{path.name}.*")):
        return False
    onnx = require("onnx", "onnx", "Exporting a run")
    model = onnx.load(path)
    graph = model.graph
    constants = {each.name: list(each.dims) for each in graph.initializer}
    reading = [node for node in graph.node if _reads_first(onnx, graph, node)]
    if len(reading) != 1:
        return False
    inside = _alone(graph, reading[0], constants)
    if not any(node.op_type == "MatMul" for node in inside):
        return False
    _slice_before(onnx, graph, inside, constants)
    del graph.value_info[:]  # Their shapes are those of all pieces.
    onnx.save(model, output)
    return True


def _reads_first(onnx: Any, graph: Any, node: Any) -> bool:
    """Return whether a node takes place 0 of axis 1."""
    if node.op_type != "Gather":
        return False
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    index = next((each for each in graph.initializer if each.name == node.input[1]), None)
    return bool(axis == 1 and index is not None and onnx.numpy_helper.to_array(index).tolist() == 0)


def _alone(graph: Any, reading: Any, constants: dict[str, list[int]]) -> list[Any]:
    """Return the nodes before ``reading`` that treat pieces alone, and that nothing else reads."""
    readers: dict[str, list[str]] = {each.name: ["output"] for each in graph.output}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.output[0])
    inside, known = [], {reading.output[0]}
    for node in reversed(graph.node):
        read_by = [reader for name in node.output for reader in readers.get(name, ())]
        if read_by and set(read_by) <= known and _treats_alone(node, constants):
            inside.append(node)
            known.add(node.output[0])
    return inside


def _treats_alone(node: Any, constants: dict[str, list[int]]) -> bool:
    ranks = [len(constants[name]) if name in constants else None for name in node.input]
    if node.op_type == "MatMul":  # Pieces times a matrix of weights.
        return ranks == [None, 2]
    if node.op_type == "LayerNormalization":
        axis = next((each.i for each in node.attribute if each.name == "axis"), -1)
        return axis == -1 and ranks[0] is None
    return node.op_type in _ALONE and all(rank in (None, 0, 1) for rank in ranks)


def _slice_before(
    onnx: Any, graph: Any, inside: list[Any], constants: dict[str, list[int]]
) -> None:
    """Let the nodes read the first piece of what comes from elsewhere."""
    make = onnx.helper.make_tensor
    for name, value in (("from", 0), ("to", 1), ("axis", 1)):
        graph.initializer.append(make(f"{_FIRST}_{name}", onnx.TensorProto.INT64, [1], [value]))
    made = {name for node in inside for name in node.output}
    places = [f"{_FIRST}_{name}" for name in ("from", "to", "axis")]
    sliced: dict[str, str] = {}
    for node in inside:
        for number, name in enumerate(node.input):
            if name and name not in made and name not in constants:
                sliced.setdefault(name, f"{_FIRST}_of_{name}")
                node.input[number] = sliced[name]
    for name, short in sliced.items():
        origin = next((i for i, node in enumerate(graph.node) if name in node.output), -1)
        node = onnx.helper.make_node("Slice", [name, *places], [short])
        graph.node.insert(origin + 1, node)
