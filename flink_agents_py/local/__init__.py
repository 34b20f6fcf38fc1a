"""The engine in a plain Python process: no Flink, no Java, the same semantics."""
