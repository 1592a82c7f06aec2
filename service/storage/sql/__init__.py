"""SQL that both adapters share: columns and statements. Begin with `statements`."""
