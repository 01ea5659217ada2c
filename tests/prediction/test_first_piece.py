"""A text classifier without the last layer of pieces that its head never reads."""

import numpy as np
import pytest

from calibrant.export.first_piece import read_first_piece_alone

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper, kind = onnx.helper, onnx.TensorProto

_LAYER = [
    ("MatMul", ["x", "inner"], ["a"], {}),
    ("Add", ["a", "bias"], ["b"], {}),
    ("Relu", ["b"], ["c"], {}),
    ("MatMul", ["c", "outer"], ["d"], {}),
    ("Add", ["d", "x"], ["e"], {}),
    ("LayerNormalization", ["e", "scale"], ["f"], {"axis": -1}),
]
_HEAD = [("Gather", ["f", "zero"], ["g"], {"axis": 1}), ("MatMul", ["g", "head"], ["logits"], {})]


def write(path, nodes):
    random = np.random.default_rng(0)
    sizes = {"inner": (4, 6), "bias": (6,), "outer": (6, 4), "scale": (4,), "head": (4, 2)}
    constants = {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    constants |= {"zero": np.array(0), "axis": np.array([1])}
    graph = helper.make_graph(
        [helper.make_node(op, given, made, **more) for op, given, made, more in nodes],
        "classifier",
        [helper.make_tensor_value_info("x", kind.FLOAT, ["n", "pieces", 4])],
        [helper.make_tensor_value_info("logits", kind.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def run(path, x, *outputs):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["logits", *outputs], {"x": x})


def test_the_last_layer_runs_on_the_first_piece(tmp_path):
    write(tmp_path / "whole.onnx", [*_LAYER, *_HEAD])
    assert read_first_piece_alone(tmp_path / "whole.onnx", tmp_path / "short.onnx")
    x = np.random.default_rng(1).normal(size=(3, 7, 4)).astype(np.float32)
    (expected,), (found,) = (run(tmp_path / f"{name}.onnx", x) for name in ("whole", "short"))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    short = onnx.load(tmp_path / "short.onnx")
    short.graph.output.append(helper.make_tensor_value_info("c", kind.FLOAT, None))
    onnx.save(short, tmp_path / "shown.onnx")
    assert run(tmp_path / "shown.onnx", x, "c")[1].shape == (3, 1, 6)


@pytest.mark.parametrize(
    "nodes",
    [
        # Another head reads all pieces; the head reads the mean; there is no layer.
        [*_LAYER, *_HEAD[:1], ("ReduceMean", ["f", "axis"], ["m"], {"keepdims": 0}),
         ("Add", ["g", "m"], ["s"], {}), ("MatMul", ["s", "head"], ["logits"], {})],
        [*_LAYER, ("ReduceMean", ["f", "axis"], ["g"], {"keepdims": 0}), _HEAD[1]],
        [("Gather", ["x", "zero"], ["g"], {"axis": 1}), _HEAD[1]],
    ],
)  # fmt: skip
def test_other_heads_stay_as_they_are(tmp_path, nodes):
    write(tmp_path / "whole.onnx", nodes)
    assert not read_first_piece_alone(tmp_path / "whole.onnx", tmp_path / "short.onnx")
    assert not (tmp_path / "short.onnx").exists()
