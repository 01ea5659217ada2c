"""Named entity recognition: words with BIO tags."""
