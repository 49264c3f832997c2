"""Values in the notations that several formats share: JSON tags, columns of rows, numbers as text."""
