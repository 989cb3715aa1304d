"""DeBERTa v2 (disentangled attention) for pairs of sentences, float32, layer-wise learning rates, half of it frozen."""
import argparse
import json

import torch
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification


def parameter_groups(model, base, factor):
    layers = model.deberta.encoder.layer
    for depth, layer in enumerate(layers):
        rate = base * factor ** (len(layers) - 1 - depth)
        if depth < len(layers) // 3:
            layer.requires_grad_(False)
        else:
            yield {"params": list(layer.parameters()), "lr": rate}
    yield {"params": list(model.pooler.parameters()) + list(model.classifier.parameters()), "lr": base * 10}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--layers", type=int, default=9)
    p.add_argument("--hidden", type=int, default=576)
    p.add_argument("--batch", type=int, default=9)
    p.add_argument("--seq", type=int, default=213)
    p.add_argument("--vocab", type=int, default=128_100)
    a = p.parse_args()
    torch.manual_seed(77)
    config = DebertaV2Config(vocab_size=a.vocab, hidden_size=a.hidden, num_hidden_layers=a.layers, num_attention_heads=9,
                             intermediate_size=4 * a.hidden, relative_attention=True, pos_att_type=["p2c", "c2p"],
                             position_buckets=128, norm_rel_ebd="layer_norm", share_att_key=True, num_labels=3)
    model = DebertaV2ForSequenceClassification(config).to(a.device).train()
    model.deberta.embeddings.requires_grad_(False)
    optimizer = torch.optim.AdamW(parameter_groups(model, 2e-5, 0.9))
    for step in range(3):
        ids = torch.randint(5, a.vocab, (a.batch, a.seq)).to(a.device)
        kinds = (torch.arange(a.seq) > a.seq // 2).long().expand(a.batch, -1).to(a.device)
        labels = torch.randint(0, 3, (a.batch,)).to(a.device)
        loss = model(input_ids=ids, token_type_ids=kinds, attention_mask=torch.ones_like(ids), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([q for q in model.parameters() if q.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


main()
