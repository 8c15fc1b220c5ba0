"""A network of two layers, trained with a generated ReLU: PyTorch's first tutorial, with an operation of one's own.

Run `gradgen build` once, then `python examples/two_layer_net.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder that generated/ lies in

from generated.relu import relu


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    # N is the batch size; D_in, H and D_out are the sizes of the input, the hidden layer and the output.
    N, D_in, H, D_out = 64, 1000, 100, 10

    # Random inputs and outputs, and weights to be learned: the same on every device.
    x = torch.randn(N, D_in).to(device)
    y = torch.randn(N, D_out).to(device)
    w1 = torch.randn(D_in, H).to(device).requires_grad_()
    w2 = torch.randn(H, D_out).to(device).requires_grad_()

    learning_rate = 1e-6
    for step in range(501):  # 500 steps, and a last look at the loss
        # Forward pass: the prediction, and the sum of its squared errors.
        y_pred = relu(x @ w1) @ w2
        loss = (y_pred - y).pow(2).sum()
        if step % 100 == 0:
            print(f"step {step:3}  loss {loss.item():.3e}")

        # Backward pass: the gradients of the loss, through relu by its generated kernel.
        loss.backward()

        # Gradient descent.
        with torch.no_grad():
            w1 -= learning_rate * w1.grad
            w2 -= learning_rate * w2.grad
            w1.grad = None
            w2.grad = None


if __name__ == "__main__":
    main()
