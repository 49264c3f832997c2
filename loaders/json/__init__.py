"""JSON and JSON Lines: entities read from their text, and new values set into it."""
