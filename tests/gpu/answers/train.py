"""Trains a Llama of 1.2 billion parameters (Llama 3.2 1B's shape) as a plain script does: fp32 weights, bf16 autocast, AdamW, steps of
changing lengths. --snapshot has PyTorch record its own history; --fused asks for the loss that holds no logits.
"""
import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--lengths", default="1024,4096,512", help="tokens of a sequence, step by step")
parser.add_argument("--batch", type=int, default=2, help="sequences of a step")
parser.add_argument("--layers", type=int, default=16)
parser.add_argument("--hidden", type=int, default=2048)
parser.add_argument("--vocab", type=int, default=128256)
parser.add_argument("--device", default="cuda")
parser.add_argument("--snapshot", help="PyTorch's own memory history goes to this file")
parser.add_argument("--fused", action="store_true", help="vramscope.patch_loss(model)")


def make(args):
    config = LlamaConfig(vocab_size=args.vocab, hidden_size=args.hidden, intermediate_size=4 * args.hidden, num_hidden_layers=args.layers,
                         num_attention_heads=args.hidden // 64, num_key_value_heads=max(1, args.hidden // 256), tie_word_embeddings=True)
    with torch.device(args.device):
        model = LlamaForCausalLM(config)
    if args.fused:
        import vramscope

        vramscope.patch_loss(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4)


def train(model, optimizer, args):
    for step, length in enumerate(map(int, args.lengths.split(",")), 1):
        ids = torch.randint(args.vocab, (args.batch, length), device=args.device)
        with torch.autocast(args.device, torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {ids.numel()} tokens, loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.snapshot:
        torch.cuda.memory._record_memory_history(max_entries=10**6, stacks="python")
    try:
        train(*make(args), args)
    finally:
        if args.device == "cuda":
            if args.snapshot:
                torch.cuda.memory._dump_snapshot(args.snapshot)
            print(f"peaks by PyTorch: allocated {torch.cuda.max_memory_allocated()}, reserved {torch.cuda.max_memory_reserved()}")
