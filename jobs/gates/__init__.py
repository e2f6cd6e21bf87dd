"""Quality gates: the rules that rows must pass before they become visible, and the pages about them."""
