"""The pages of one sweep, of one trial and of several compared, and the buttons that steer a sweep."""
