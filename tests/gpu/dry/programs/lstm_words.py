"""A language model of LSTMs: truncated backpropagation with states carried over, tied weights, dropout, plain gradient descent by hand."""
import argparse
import json
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--emsize", type=int, default=650)
parser.add_argument("--nlayers", type=int, default=3)
parser.add_argument("--batch", type=int, default=40)
parser.add_argument("--bptt", type=int, default=70)
parser.add_argument("--vocab", type=int, default=33_278)
args = parser.parse_args()


class RNNModel(nn.Module):
    def __init__(self, vocab, n, layers, dropout=0.4):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocab, n)
        self.rnn = nn.LSTM(n, n, layers, dropout=dropout)
        self.decoder = nn.Linear(n, vocab)
        self.decoder.weight = self.encoder.weight

    def forward(self, x, hidden):
        y, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(y)).view(-1, self.decoder.out_features), hidden


torch.manual_seed(1111)
data = torch.randint(0, args.vocab, (args.bptt * 4 + 1, args.batch)).to(args.device)
model = RNNModel(args.vocab, args.emsize, args.nlayers).to(args.device)
hidden = tuple(torch.zeros(args.nlayers, args.batch, args.emsize, device=args.device) for _ in range(2))
for step, i in enumerate(range(0, data.size(0) - 1, args.bptt)):
    hidden = tuple(h.detach() for h in hidden)
    model.zero_grad()
    output, hidden = model(data[i:i + args.bptt], hidden)
    loss = nn.functional.cross_entropy(output, data[i + 1:i + 1 + args.bptt].view(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-20.0)
    print("| batch {:3d} | loss {:5.2f}".format(step, loss.item()))
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
