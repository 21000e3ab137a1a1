"""Tables of results, their JSON, and the figures that belong to them."""
