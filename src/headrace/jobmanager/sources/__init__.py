"""Sources in the driver: splits and positions, who waits for whom, how far behind they are."""
