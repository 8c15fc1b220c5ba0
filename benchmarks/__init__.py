"""How fast the operations of the gallery are, beside PyTorch's own, torch.compile and others: python -m benchmarks."""
