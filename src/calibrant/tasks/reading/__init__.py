"""Find and read data: names and folders, splits, class labels, records, the hub."""
