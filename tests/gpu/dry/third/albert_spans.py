"""ALBERT finds answers: one layer's weights used many times, fp16 with a GradScaler."""
import torch
from transformers import AlbertConfig, AlbertForQuestionAnswering, get_linear_schedule_with_warmup

from kit import memory, options


def windows(length, size, stride):
    """Where the windows of a passage begin."""
    return list(range(0, max(1, length - size + stride), stride))


def features(a, passages):
    ids, types, starts, ends = [], [], [], []
    for length in torch.randint(a.window, 3 * a.window, (passages,)).tolist():
        text = torch.randint(5, a.vocab, (length,))
        answer = int(torch.randint(0, length - 4, (1,)))
        for at in windows(length, a.window, a.window // 2):
            piece = text[at:at + a.window]
            ids.append(torch.nn.functional.pad(piece, (0, a.window - len(piece))))
            types.append((torch.arange(a.window) > 14).long())
            inside = at <= answer and answer + 3 < at + a.window
            starts.append(answer - at if inside else 0)
            ends.append(answer - at + 3 if inside else 0)
    return torch.stack(ids), torch.stack(types), torch.tensor(starts), torch.tensor(ends)


def f1(start, end, truth):
    overlap = min(end, truth[1]) - max(start, truth[0]) + 1
    return 0.0 if overlap <= 0 else 2 * overlap / ((end - start + 1) + (truth[1] - truth[0] + 1))


def main():
    a = options(hidden=1024, layers=12, vocab=30_000, window=320, batch=11)
    torch.manual_seed(1011)
    model = AlbertForQuestionAnswering(AlbertConfig(
        vocab_size=a.vocab, embedding_size=128, hidden_size=a.hidden, num_hidden_layers=a.layers, num_attention_heads=16,
        intermediate_size=4 * a.hidden, max_position_embeddings=512, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0)).to(a.device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, eps=1e-6)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, 20)
    scaler = torch.amp.GradScaler(a.device)
    ids, types, starts, ends = features(a, 4 * a.batch)
    for step, at in enumerate(range(0, 4 * a.batch, a.batch)):
        part = slice(at, at + a.batch)
        x, t, s, e = (v[part].to(a.device) for v in (ids, types, starts, ends))
        with torch.autocast(a.device, dtype=torch.float16):
            out = model(input_ids=x, attention_mask=(x != 0).long(), token_type_ids=t, start_positions=s, end_positions=e)
        scaler.scale(out.loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        model.zero_grad()
        guess = zip(out.start_logits.argmax(-1).tolist(), out.end_logits.argmax(-1).tolist(), starts[part].tolist(), ends[part].tolist())
        score = sum(f1(i, max(i, j), (k, m)) for i, j, k, m in guess) / a.batch
        print(f"step {step} loss {out.loss.item():.4f} f1 {score:.3f} scale {scaler.get_scale():.0f}")
        memory(step=step)


main()
