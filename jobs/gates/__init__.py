"""Quality gates: what must hold before rows become visible, who asks, and the pages that tell of it."""
