"""Cloud Storage on this machine, for rehearsals: its objects are files, and Google's libraries find it by variables."""
