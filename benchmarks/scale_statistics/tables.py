"""Tables of the simulations."""


def markdown(book):
    return "\n".join(book)
