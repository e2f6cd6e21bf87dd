"""Operators, a sensor, assets and callbacks that the DAG files share."""
