"""Everything that works on records of the past: tables and files, replay, calibration and backtesting."""
