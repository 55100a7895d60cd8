"""What the tests of the guarantees share: planned faults, programs in processes of their own, and a strict checker."""
