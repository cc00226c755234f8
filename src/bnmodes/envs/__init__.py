"""Games behind one vector contract."""
