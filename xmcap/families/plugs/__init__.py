"""PLuGS: captions with a stabilizer, the English caption before the target's (Thapliyal and Soricut, ACL 2020)."""
