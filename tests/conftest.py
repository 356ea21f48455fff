"""Strict settings for every test: eight CPU devices, no silent rank promotion."""

import contextlib
import os
from pathlib import Path

# Before JAX starts: its CPU backend reads the flag once.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# What one test, worker or child process has compiled, no other compiles again.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Its import configures logging anew, which closes the stream that absl logs to: under pytest that
# of captured output. So it comes before absl is there.
with contextlib.suppress(ImportError):
    import submitit  # noqa: F401

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
# Compiling is most of the suite's time, and its models are tiny.
jax.config.update("jax_disable_most_optimizations", True)
