"""Reinforcement learning: rollouts of a toy world on the host, generalized advantages, several epochs of shuffled minibatches, a convolutional policy."""
import argparse, json
import torch
from torch import nn
from torch.distributions import Categorical

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--worlds", type=int, default=60)
p.add_argument("--length", type=int, default=40)
p.add_argument("--minibatch", type=int, default=700)
p.add_argument("--width", type=int, default=64)
a = p.parse_args()
torch.manual_seed(1)
w = a.width
body = nn.Sequential(nn.Conv2d(4, w, 8, 4), nn.ReLU(), nn.Conv2d(w, 2 * w, 4, 2), nn.ReLU(), nn.Conv2d(2 * w, 2 * w, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * w * 49, 512), nn.ReLU())
actor, critic = nn.Linear(512, 6), nn.Linear(512, 1)
agent = nn.ModuleList([body, actor, critic]).to(a.device)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
observations = torch.zeros(a.length, a.worlds, 4, 84, 84, dtype=torch.uint8, device=a.device)
actions, logs, rewards, values = (torch.zeros(a.length, a.worlds, device=a.device) for _ in range(4))
for step in range(3):
    with torch.no_grad():
        for t in range(a.length):
            observations[t] = torch.randint(0, 256, (a.worlds, 4, 84, 84), dtype=torch.uint8).to(a.device)
            h = body(observations[t].float() / 255)
            policy = Categorical(logits=actor(h))
            actions[t] = policy.sample()
            logs[t], values[t] = policy.log_prob(actions[t]), critic(h).squeeze(1)
            rewards[t] = torch.randn(a.worlds).to(a.device)
        advantages, last = torch.zeros_like(rewards), 0
        for t in reversed(range(a.length - 1)):
            last = rewards[t] + 0.99 * values[t + 1] - values[t] + 0.95 * 0.99 * last
            advantages[t] = last
    o, act, log, adv = observations.flatten(0, 1), actions.flatten(), logs.flatten(), advantages.flatten()
    returns = adv + values.flatten()
    for epoch in range(2):
        for index in torch.randperm(len(o), device=a.device).split(a.minibatch):
            h = body(o[index].float() / 255)
            policy = Categorical(logits=actor(h))
            ratio = (policy.log_prob(act[index]) - log[index]).exp()
            g = (adv[index] - adv[index].mean()) / (adv[index].std() + 1e-8)
            loss = -torch.min(ratio * g, ratio.clamp(0.9, 1.1) * g).mean() + 0.5 * (critic(h).squeeze(1) - returns[index]).pow(2).mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print("update", step, "loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
