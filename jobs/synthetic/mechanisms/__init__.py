"""What goes wrong in a generated job: a module per cause, and one for what is no cause."""
