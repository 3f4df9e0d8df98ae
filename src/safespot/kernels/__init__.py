"""How kernels are compiled (`jit`), and sums whose bits never change (`sums`)."""
