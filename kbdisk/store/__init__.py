"""Model folders: saved atomically, opened with every file checked, and described by a model card."""
