"""Settings: what they are (`schema`) and where they come from (`load`)."""

from tap.config.load import load_params, load_scale

__all__ = ["load_params", "load_scale"]
