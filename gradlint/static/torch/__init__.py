"""The meaning of torch: tensors, graphs, storage, modules, optimizers, modes and devices."""
