"""torch_offload.py - an optimizer whose state lives in pinned host memory: gradients go out, updates come back."""
import torch

import truth
from model import Model, batches, loss_of


class HostAdam:
    """Adam with its state and a copy of the weights in pinned memory; half of it is pinned by cudaHostRegister."""

    def __init__(self, parameters, lr=1e-3):
        self.parameters, self.lr, self.step_number, self.registered = list(parameters), lr, 0, []
        self.state = [tuple(self.host(p, i) for _ in range(4)) for i, p in enumerate(self.parameters)]
        for p, (weight, _, _, _) in zip(self.parameters, self.state):
            weight.copy_(p.detach())

    def host(self, p, i):
        if i % 2 == 0:
            return torch.zeros(p.shape, pin_memory=True)
        memory = torch.zeros(p.shape)
        status = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)
        assert int(status) == 0, status
        self.registered.append(memory)
        return memory

    @torch.no_grad()
    def step(self):
        self.step_number += 1
        for p, (_, gradient, _, _) in zip(self.parameters, self.state):
            gradient.copy_(p.grad, non_blocking=True)
            p.grad = None
        torch.cuda.synchronize()
        for p, (weight, gradient, mean, square) in zip(self.parameters, self.state):
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            corrected = (square / (1 - 0.999**self.step_number)).sqrt_().add_(1e-8)
            weight.addcdiv_(mean / (1 - 0.9**self.step_number), corrected, value=-self.lr)
            p.copy_(weight, non_blocking=True)
        torch.cuda.synchronize()

    def close(self):
        for memory in self.registered:
            torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())


def main():
    torch.manual_seed(0)
    torch.set_num_threads(4)
    model = Model(blocks=2).cuda()
    optimizer = HostAdam(model.parameters())
    losses = []
    for tokens in batches(4, "cuda"):
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 3))
    counters = truth.torch_counters(torch)
    pinned = sum(s.nbytes for state in optimizer.state for s in state)
    truth.report(losses=losses, pinned=pinned, **counters)
    truth.mark(pinned=pinned, **counters)
    optimizer.close()


main()
