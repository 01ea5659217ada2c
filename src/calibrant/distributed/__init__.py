"""More than one machine: the engines Ray and Spark."""
