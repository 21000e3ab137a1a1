from typing import Any

SampleSize = required_sample_size = Any
