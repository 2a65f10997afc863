"""bitcycle in other libraries."""
