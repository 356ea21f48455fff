"""DocEnt: entities represented by the sentences that describe them."""
