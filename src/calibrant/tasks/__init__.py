"""Data, label set, collation and model of each task; knows nothing of calibration methods."""
