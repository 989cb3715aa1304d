"""zero3.py - Llama 3 8B, trained by the Hugging Face Trainer over DeepSpeed with the settings of a public measurement
(github.com/gpjt/fine-tune-2024-04, sequence-length-memory-modeling-8B).

    vramscope fit --ranks=8 --rank=0,7 --gpu=A100-80GB -- python examples/fit/zero3.py LENGTH [checkpoint] [offload]

The model is made whole and in fp32, as by from_pretrained(); DeepSpeed casts it to fp16 and parts it.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

length, offload = int(sys.argv[1]), "offload" in sys.argv
host = {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}}
settings = {
    "zero_optimization": host if offload else {"stage": 3},
    "fp16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": 1e-8, "weight_decay": "auto"}},
    "zero_force_ds_cpu_optimizer": False,
    "train_micro_batch_size_per_gpu": 1,
}


class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        ids = torch.randint(0, 128256, (length,))
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
model = LlamaForCausalLM(LlamaConfig(vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0, **shape))
if offload or "checkpoint" in sys.argv:
    model.gradient_checkpointing_enable()
arguments = TrainingArguments(
    "outputs", fp16=True, per_device_train_batch_size=1, max_steps=3, weight_decay=0.01, learning_rate=8e-5, deepspeed=settings, report_to="none", save_strategy="no"
)
Trainer(model, arguments, train_dataset=Text()).train()
