"""Qwen3 by Hugging Face's Trainer: bf16, accumulation, an evaluation between the steps, a last batch that is smaller."""
import argparse
import json
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Tokens(Dataset):
    def __init__(self, count, length, vocab, seed):
        self.ids = torch.randint(0, vocab, (count, length), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i].clone(),
                "attention_mask": torch.ones_like(self.ids[i])}


class Memory(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(json.dumps({"step": state.global_step - 1, "allocated": torch.cuda.max_memory_allocated(),
                          "reserved": torch.cuda.max_memory_reserved()}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--vocab", type=int, default=49_999)
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--length", type=int, default=512)
    a = parser.parse_args()
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=2816, num_hidden_layers=a.layers, head_dim=128,
        num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=True))
    with tempfile.TemporaryDirectory() as out:
        settings = TrainingArguments(
            output_dir=out, per_device_train_batch_size=a.batch, per_device_eval_batch_size=a.batch + 2,
            gradient_accumulation_steps=2, max_steps=4, bf16=a.device == "cuda", eval_strategy="steps", eval_steps=2,
            logging_steps=1, save_strategy="no", report_to=[], use_cpu=a.device == "cpu",
            dataloader_num_workers=0, prediction_loss_only=True)
        trainer = Trainer(model=model, args=settings, train_dataset=Tokens(6 * a.batch + 1, a.length, a.vocab, 1),
                          eval_dataset=Tokens(a.batch + 3, a.length - 12, a.vocab, 2), callbacks=[Memory()])
        result = trainer.train()
        print("train loss", result.training_loss)
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main()
