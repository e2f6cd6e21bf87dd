"""Server of the report's pages, which are made when a browser on this machine asks for them."""
