"""How the laws of a chain are fitted out of sample."""
