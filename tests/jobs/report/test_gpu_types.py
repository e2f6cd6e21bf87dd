"""The section of GPU types on a job's page."""

from dataclasses import replace

from jobs.report.job_page import job_page
from jobs.report.sections import gpu_types
from jobs.synthetic.mechanisms.gpu_types import MixedTypes
from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.vocabulary import GPU_TYPE_SLOWDOWN
from tests.jobs.report.pages import Page
from tests.jobs.report.units import sick_job, unit_tables
from tests.support.random_jobs import generate_job

TYPES = {f"node-{number:04d}": "A100" if number in {1, 3} else "H100" for number in range(4)}


def test_a_job_on_two_types_has_a_section_of_them_and_others_have_none() -> None:
    shape = JobShape(dp_size=4, pp_size=1, tp_size=8, steps=12)
    mixed = MixedTypes(TYPES, {"H100": (1.0, 1.0), "A100": (1.5, 1.5)})
    job = generate_job(shape, [mixed], seed=1, identity=JobIdentity(fields={"gpu_hours": 100.0}))
    tables = unit_tables(job.rank_steps, job.manifest)
    found = gpu_types(tables)
    assert found is not None
    assert [row[0] for row in found.rows] == ["H100", "A100"]
    assert [row[5] for row in found.rows] == ["1.00", "1.50"]
    page = Page(job_page(tables, None))
    assert "Types of GPU" in page.text
    assert "unlike GPUs (mixed_hardware)" in page.text
    assert gpu_types(sick_job()) is None


def test_what_is_not_known_is_left_open() -> None:
    """Without factors nothing is said of what the fastest type would save; doubtful ones are in brackets."""
    row = {"gpu_type": "A100", "workers": 2, "hosts": 1, "forward_ideal_s": 0.1, "backward_ideal_s": None} | {
        "slowdown": 1.2,
        "time_saved_fraction": None,
        "saved_gpu_hours": None,
    }
    rows = [row | {"factor": None, "is_slower": False}, row | {"factor": 1.02, "is_slower": False}]
    found = gpu_types(replace(sick_job(), further={GPU_TYPE_SLOWDOWN: rows}))
    assert found is not None
    assert found.says.startswith("Times as long")
    assert [each[5] for each in found.rows] == ["(1.02)", "\N{EN DASH}"]
    assert found.rows[0][4] == "\N{EN DASH}"
