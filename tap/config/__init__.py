"""Settings: what they are (`schema`), where they come from (`load`), and what one job gets of them (`jobs`)."""

from tap.config.jobs import job_json, job_spec, parse_job, runs_of_table
from tap.config.load import load_params, load_scale

__all__ = ["job_json", "job_spec", "load_params", "load_scale", "parse_job", "runs_of_table"]
