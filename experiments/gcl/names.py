"""What augmentations are called: as in the paper, ours in words."""

AUGMENTATION_NAMES = {
    "substitute_typed": "Variable Substitution (published code)",
    "substitute_variables": "Variable Substitution",
    "rename": "consistent renaming",
    "node_drop": "Node Drop",
    "edge_drop": "Edge Drop",
    "node_mask": "Node Feature Mask",
    "edge_mask": "Edge Feature Mask",
    "random": "Random",
    "subformula": "sub-formula",
    "none": "none",
}
