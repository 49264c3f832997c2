"""The network: what is visible of some entities in, a belief about every property asked for out."""
