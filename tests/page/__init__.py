"""The page in a real browser: one file a group of promises (docs/page.md)."""
