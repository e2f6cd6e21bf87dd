"""Log formats, one module each: file contents in, rows and rejects out. No Spark, no stores."""
