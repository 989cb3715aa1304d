"""jax_step.py - a jitted training step in JAX; XLA_PYTHON_CLIENT_ALLOCATOR chooses the allocator."""
import jax
import jax.numpy as jnp

import truth


def loss_of(weights, x, y):
    for w in weights[:-1]:
        x = jax.nn.relu(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


@jax.jit
def step(weights, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return loss, [w - 0.1 * g for w, g in zip(weights, gradients)]


def main():
    keys = jax.random.split(jax.random.PRNGKey(0), 6)
    weights = [jax.random.normal(k, (1024, 1024)) * 0.03 for k in keys[:4]]
    x, y = jax.random.normal(keys[4], (2048, 1024)), jax.random.normal(keys[5], (2048, 1024))
    losses = []
    for _ in range(5):
        loss, weights = step(weights, x, y)
        losses.append(round(float(loss), 3))
    jax.block_until_ready(weights)
    stats = jax.devices()[0].memory_stats() or {}
    truth.report(losses=losses, platform=jax.devices()[0].platform)
    truth.mark(**{k: v for k, v in stats.items() if isinstance(v, int)})


main()
