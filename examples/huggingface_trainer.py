"""∇Acc with error regularisation in the Hugging Face Trainer. Runs in seconds, offline.

A BERT token classifier of random weights learns to tag the even token ids.
"""

import tempfile

import torch
from transformers import BertConfig, BertForTokenClassification, TrainingArguments

from calibrant import Trainer
from calibrant.methods import CrossEntropy, ErrorRegularization, HeadNoise


def sentences(count: int = 64, tokens: int = 12) -> list[dict[str, torch.Tensor]]:
    """Token ids, tagged 1 where even, −100 on the first and last."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(count):
        ids = torch.randint(100, (tokens,), generator=generator)
        labels = (ids % 2 == 0).long()
        labels[[0, -1]] = -100
        rows.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels})
    return rows


def model() -> BertForTokenClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=2,
    )
    return BertForTokenClassification(config)


def main(steps: int = 40) -> float:
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model(),
            args=TrainingArguments(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=8,
                gradient_accumulation_steps=2,
                learning_rate=1e-3,
                logging_steps=10,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                dataloader_pin_memory=False,
            ),
            train_dataset=sentences(),
            method=HeadNoise(CrossEntropy(), with_=ErrorRegularization(weight=0.05)),
        )
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print("task loss:", ", ".join(f"{loss:.3f}" for loss in losses))
    return losses[-1]


if __name__ == "__main__":
    main()
