"""A JAX that is a shell: what vramscope/_pools.py looks at, with figures that a test sets."""

from jax._src import xla_bridge
