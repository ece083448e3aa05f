"""The way home: what leaves the site as an installable extension."""
