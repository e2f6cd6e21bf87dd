"""Commands, one module each; the folders beside them hold the code that the commands share."""
