"""Settings are merged from several files, and errors name the file and the key."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.history.phases import PHASES
from jobs.runtime.package import write_zip
from jobs.runtime.project import PROJECT
from jobs.runtime.settings import SHIPPED, SettingsError, load_settings, with_new_warehouse


def overlay(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


def test_without_arguments_the_local_overlay_lies_on_the_base() -> None:
    settings = load_settings()
    assert settings.simulation.minimum_steps == 10
    assert settings.spark.master == "local[*]"
    assert settings.spark.conf["spark.sql.session.timeZone"] == "UTC"
    assert settings.paths.landing == str(PROJECT / "landing")


@pytest.mark.parametrize(("name", "is_dynamic"), [("cluster", False), ("kubernetes", True), ("yarn", True)])
def test_overlays_of_clusters_leave_the_master_to_spark_submit(name: str, *, is_dynamic: bool) -> None:
    assert name in SHIPPED
    spark = load_settings(name).spark
    assert (spark.master, spark.conf["spark.sql.shuffle.partitions"]) == (None, "400")
    assert "spark.driver.memory" not in spark.conf
    assert (spark.conf.get("spark.dynamicAllocation.enabled") == "true") is is_dynamic


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    settings = load_settings(
        overlay(tmp_path, '[simulation]\nminimum_steps = 5\n[spark.conf]\n"a.b" = "c"\n')
    )
    assert settings.simulation.minimum_steps == 5
    assert settings.simulation.maximum_restarts == 15
    assert settings.spark.conf["a.b"] == "c"
    assert settings.spark.conf["spark.sql.session.timeZone"] == "UTC"
    assert settings.spark.master == "local[*]"


def test_watts_are_settings_of_aggregate_alone(tmp_path: Path) -> None:
    """Settings of electric power change only the fingerprint of the phase aggregate, and none if unset."""
    watts = load_settings(
        overlay(tmp_path, "[power.watts]\nH100 = { computing = 700.0, otherwise = 250.0 }\n")
    )
    usual = load_settings()
    changed = [name for name, phase in PHASES.items() if phase.settings(watts) != phase.settings(usual)]
    assert changed == ["aggregate"]
    assert PHASES["aggregate"].settings(usual) == "{}"


def test_a_file_can_extend_the_cluster_overlay(tmp_path: Path) -> None:
    settings = load_settings(overlay(tmp_path, 'extends = "cluster"\n[simulation]\nminimum_steps = 5\n'))
    assert settings.simulation.minimum_steps == 5
    assert settings.spark.conf["spark.sql.shuffle.partitions"] == "400"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[simulation]\nminimum_step = 5\n",
            "simulation.minimum_step: unknown key: did you mean minimum_steps?",
        ),
        (
            "[simulations]\nminimum_steps = 5\n",
            "mine.toml: simulations: unknown key: did you mean simulation?",
        ),
        ("minimum_steps = 5\n", "mine.toml: minimum_steps: unknown key: [simulation] has minimum_steps"),
        (
            "[history]\nminimum_runs = 5\n",
            "mine.toml: history.minimum_runs: unknown key: [revision] has minimum_runs",
        ),
        (
            "[diagnosis]\nminimum_steps = 5\n",
            "mine.toml: diagnosis: unknown key: [simulation] has minimum_steps",
        ),
        ("[diagnosis]\nlevel = 5\n", "mine.toml: diagnosis: unknown key: choose from "),
        (
            "[power.watts]\nH100 = { computing = 100.0, otherwise = 250.0 }\n",
            (
                "mine.toml: power.watts.H100: Value error, computing 100 W, otherwise 250 W: "
                "computing must not be less"
            ),
        ),
        (
            "[power.watts]\nH100 = { computing = inf, otherwise = 250.0 }\n",
            "mine.toml: power.watts.H100.computing: Input should be a finite number",
        ),
        (
            "[power.watts]\nH100 = { computing = 700.0, otherwise = nan }\n",
            "mine.toml: power.watts.H100.otherwise: Input should be a finite number",
        ),
        (
            "[power.watts]\nH100 = { computing = 1e300, otherwise = 250.0 }\n",
            "mine.toml: power.watts.H100.computing: Input should be less than or equal to 1000000",
        ),
        (
            "[power.watts]\nH100 = { computing = 700.0, otherwise = -1.0 }\n",
            "mine.toml: power.watts.H100.otherwise: Input should be greater than or equal to 0",
        ),
        (
            '[paths]\nreport = "s3a://bucket/pages"\n',
            "mine.toml: paths.report: Value error, must be a folder of this machine",
        ),
        (
            '[simulation]\nminimum_steps = "5"\n',
            "mine.toml: simulation.minimum_steps: Input should be a valid integer, not ",
        ),
        ("[simulation]\nminimum_steps = 0\n", "mine.toml: simulation.minimum_steps: Input should be greater"),
        (
            '[simulation]\nideal = "best"\n',
            "mine.toml: simulation.ideal: Input should be 'pooled-mean-median'",
        ),
        ("[spark]\npackages = []\n", "mine.toml: spark.packages:"),
        ("[spark.conf]\na = 1\n", "mine.toml: spark.conf.a: Input should be a valid string"),
        ('extends = "cloud"\n', "mine.toml: extends: must be one of base, local, cluster, kubernetes,"),
        ("[simulation\n", "mine.toml: not TOML:"),
    ],
)
def test_wrong_settings_name_file_and_key_on_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings(overlay(tmp_path, text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_error_for_a_missing_overlay_names_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: No such file"):
        load_settings(tmp_path / "absent.toml")


def test_a_key_missing_from_the_base_names_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PROJECT / "conf", tmp_path / "conf")
    base = tmp_path / "conf" / "base.toml"
    base.write_text(base.read_text().replace("maximum_restarts", "# maximum_restarts"))
    monkeypatch.setattr("jobs.runtime.settings.project_file", tmp_path.joinpath)
    with pytest.raises(SettingsError, match=r"^conf/base\.toml: simulation\.maximum_restarts: missing key$"):
        load_settings()


def test_paths_of_the_command_line_start_where_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = load_settings(None, "logs", "/tables").paths
    assert (paths.landing, paths.warehouse) == (str(tmp_path / "logs"), "/tables")
    file = overlay(tmp_path, '[paths]\nlanding = "hdfs://a/logs/"\ningested = "s3://b/before/"\n')
    settings = load_settings(file, warehouse="s3a://b/c/")
    urls = settings.paths
    assert (urls.landing, urls.warehouse) == ("hdfs://a/logs", "s3://b/c"), "the scheme s3a is replaced by s3"
    assert urls.ingested == "s3://b/before"
    assert with_new_warehouse(settings, "s3a://b/new/").paths.warehouse == "s3://b/new"


def test_the_report_lies_in_a_warehouse_of_this_machine_unless_it_is_put_elsewhere(tmp_path: Path) -> None:
    assert load_settings(None, None, "/tables").report_folder == Path("/tables/_report")
    file = overlay(tmp_path, '[paths]\nreport = "pages"\n')
    assert load_settings(file, None, "s3a://bucket/tables").report_folder == PROJECT / "pages"
    assert load_settings(None, None, "s3a://bucket/tables").report_folder is None


def test_settings_and_views_are_read_from_inside_the_zip(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "project.zip")
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import jobs.runtime.settings, schemas.views\n"
        "settings = jobs.runtime.settings.load_settings('cluster')\n"
        "print(jobs.runtime.settings.__file__, settings.paths.landing, len(schemas.views.VIEWS))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    file, landing, views = done.stdout.split()
    assert file.startswith(str(archive))
    assert landing == str(tmp_path / "landing")
    assert int(views) > 0
