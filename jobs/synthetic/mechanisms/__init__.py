"""What goes wrong in a generated job: workers, uneven work, late transfers and data, and what is no cause."""
