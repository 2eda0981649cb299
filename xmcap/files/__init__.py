"""Local files and object stores: addresses, atomic writes, output locks, caches, tensors one at a time."""
