"""The speed ladder: one run made faster rung by rung, each rung measured."""
