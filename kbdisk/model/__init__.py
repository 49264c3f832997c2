"""DiSK, masked diffusion over the properties of entities: network, masking, loss, sampler, likelihood, point estimates."""
