"""Generated training jobs: an event simulation that leaves the timelines a real job would have recorded.

It shares nothing with the what-if kernel, so that its logs can test, demonstrate and time the pipeline.
"""
