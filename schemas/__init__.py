"""What kind of value stands where: the typed schema registry."""
