"""Power over a day: megawatts of units, their sum over the fleet, and units that swing in phase."""
