"""StarCoder 2 by the Trainer: lengths that differ, a collator that pads to multiples of 32, accumulation, the fused optimizer."""
import argparse
import json
import tempfile

import torch
from transformers import Starcoder2Config, Starcoder2ForCausalLM, Trainer, TrainerCallback, TrainingArguments


def pad(rows):
    longest = -(-max(len(r["ids"]) for r in rows) // 32) * 32
    ids, labels, mask = torch.zeros(len(rows), longest, dtype=torch.long), torch.full((len(rows), longest), -100), torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        n = len(row["ids"])
        ids[i, :n] = labels[i, :n] = row["ids"]
        mask[i, :n] = 1
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


class Memory(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(json.dumps({"step": state.global_step - 1, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=10)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--longest", type=int, default=900)
    a = p.parse_args()
    draw = torch.Generator().manual_seed(19)
    rows = [{"ids": torch.randint(1, 49_152, (int(n),), generator=draw)} for n in torch.randint(a.longest // 6, a.longest, (a.batch * 10,), generator=draw)]
    torch.manual_seed(19)
    model = Starcoder2ForCausalLM(Starcoder2Config(
        vocab_size=49_152, hidden_size=a.hidden, intermediate_size=4 * a.hidden, num_hidden_layers=a.layers, num_attention_heads=12,
        num_key_value_heads=2, sliding_window=None, residual_dropout=0.1, attention_dropout=0.1))
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(model=model, train_dataset=rows, data_collator=pad, callbacks=[Memory()], args=TrainingArguments(
            output_dir=out, per_device_train_batch_size=a.batch, gradient_accumulation_steps=2, max_steps=4, bf16=a.device == "cuda",
            learning_rate=2e-4, optim="adamw_torch_fused", lr_scheduler_type="cosine", warmup_steps=2, label_smoothing_factor=0.0,
            remove_unused_columns=False, save_strategy="no", logging_steps=1, report_to=[], use_cpu=a.device == "cpu", seed=3))
        trainer.train()
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


main()
