"""A softmax on many machines: shards of the rows visit shards of the classes."""
