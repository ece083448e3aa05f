"""The workspace: the folder an author works in, its layout and what is generated from it."""
