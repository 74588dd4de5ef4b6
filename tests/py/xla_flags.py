"""Flags with which XLA compiles programs of the tests in two thirds of the time, or in half of it.

What LLVM makes of a program is not under test: it need not optimise, nor get the functions of a
small program in several modules. Of jax 0.10's two ways to write fused loops the older is the
quicker to compile, though users get the newer; 0.12 has that one alone. They can give other values:
the older one reduces dimensions in the order in which they are listed. CI runs a sample of the
tests once more with 0.12 and with LLVM's optimisations.
"""

QUICK = (
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"
)
