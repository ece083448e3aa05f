"""What an author can do in its workspace. Every tool is a small class; `toolbox.py` knows them all."""
