"""Power over a day: megawatts of units, the fleet's sum, units that swing in phase."""
