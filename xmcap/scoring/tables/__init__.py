"""Tables, signatures and the files of a result."""
