"""Commands, one module each; the packages in this folder contain the code that commands share."""
