"""The papers' tables and findings, computed anew from what their authors released."""
