"""M2M-100: sorted lengths, layers left out at random, TF32, a short beam."""
import random

import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration
from transformers.optimization import get_inverse_sqrt_schedule

from kit import memory, options

args = options(width=640, layers=7, vocab=64_000, batch=24, longest=130, beams=3)


def pool(count):
    """Batches of pairs of about the same length, in random order."""
    pairs = [(n := random.randint(8, args.longest), min(args.longest, max(4, n + random.randint(-6, 9)))) for _ in range(count)]
    pairs.sort()
    batches = [pairs[i:i + args.batch] for i in range(0, count, args.batch)]
    random.shuffle(batches)
    return batches


def padded(lengths):
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return torch.where(mask, torch.randint(10, args.vocab, mask.shape), 1), mask


def main():
    torch.manual_seed(1013)
    random.seed(1013)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = M2M100ForConditionalGeneration(M2M100Config(
        vocab_size=args.vocab, d_model=args.width, encoder_layers=args.layers, decoder_layers=args.layers, encoder_attention_heads=10,
        decoder_attention_heads=10, encoder_ffn_dim=4 * args.width, decoder_ffn_dim=4 * args.width, encoder_layerdrop=0.1,
        decoder_layerdrop=0.1, max_position_embeddings=512, dropout=0.1)).to(args.device)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-8)
    schedule = get_inverse_sqrt_schedule(optimizer, num_warmup_steps=4)
    batches = pool(args.batch * 8)
    for step in range(4):
        for batch in batches[2 * step:2 * step + 2]:
            source, mask = padded([s for s, _ in batch])
            target, there = padded([t for _, t in batch])
            labels = target.masked_fill(~there, -100)
            loss = model(input_ids=source.to(args.device), attention_mask=mask.long().to(args.device), labels=labels.to(args.device)).loss
            (loss / 2).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print("update", step, "loss", loss.item(), "lr", schedule.get_last_lr()[0])
        memory(step=step)
    model.eval()
    source, mask = padded([9, 12, 7])
    with torch.no_grad():
        said = model.generate(input_ids=source.to(args.device), attention_mask=mask.long().to(args.device), num_beams=args.beams,
                              max_new_tokens=12, min_new_tokens=12, forced_bos_token_id=5)
    print("translated", tuple(said.shape))


main()
