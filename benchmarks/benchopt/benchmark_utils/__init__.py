"""What the solvers on PyTorch share."""
