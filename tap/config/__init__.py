"""Settings: what they are (`scale`, `task`, `schema` of a job, and their parts) and where they come from (`load`)."""

from tap.config.load import load_params, load_scale

__all__ = ["load_params", "load_scale"]
