"""T5 (relative positions, gated feed-forward, untied head) with padded inputs and targets of their own lengths; Adafactor of PyTorch."""
import argparse
import json

import torch
from transformers import T5Config, T5ForConditionalGeneration


def batch(count, longest, vocab, generator):
    lengths = torch.randint(longest // 3, longest + 1, (count,), generator=generator)
    ids = torch.randint(2, vocab, (count, int(lengths.max())), generator=generator)
    mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
    return ids * mask, mask.long()


def main(a):
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(99)
    config = T5Config(vocab_size=32_128, d_model=a.width, d_kv=64, d_ff=int(a.width * 2.75), num_layers=a.layers, num_heads=a.width // 64,
                      feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).to(a.device)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)
    for step in range(5):
        source, mask = batch(a.batch, a.source, 32_128, generator)
        target, kept = batch(a.batch, a.target, 32_128, generator)
        target[kept == 0] = -100
        out = model(input_ids=source.to(a.device), attention_mask=mask.to(a.device), labels=target.to(a.device))
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"{step}: {tuple(source.shape)} -> {tuple(target.shape)}, loss {out.loss.item():.3f}")
        print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(),
                          "reserved": torch.cuda.max_memory_reserved()}), flush=True)
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--width", type=int, default=704)
    p.add_argument("--layers", type=int, default=7)
    p.add_argument("--batch", type=int, default=9)
    p.add_argument("--source", type=int, default=480)
    p.add_argument("--target", type=int, default=130)
    main(p.parse_args())
