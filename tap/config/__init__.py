"""Settings: what they are (`schema`, and below it a module for each part) and where they come from (`load`)."""

from tap.config.load import load_params, load_scale

__all__ = ["load_params", "load_scale"]
