# Runs spark-submit with these arguments, and ends all processes that it started when the task ends.
#
#   bash spark_submit.sh ARGUMENT ...     in the folder of the project
#
# PROGRAMS            folder of the programs of the worker's environment, its Python among them
# WHAT_IF_PROPERTIES  file with Spark's settings, including secrets; removed when the task ends
#
# The exit status is that of spark-submit; 2, wrong settings (schemas.vocabulary.Exit), without Java.
set -e

# Watchdog for a task that was killed by SIGKILL, and so could not end Spark, which must not go on writing. All
# processes are in the shell's process group. The watchdog ignores SIGTERM, in case Spark does not end.
(
  trap '' TERM
  while kill -0 "$PPID"; do sleep 2; done
  kill -TERM -- "-$$"
  sleep 10
  kill -KILL -- "-$$"
) > /dev/null 2>&1 &
watch=$!
disown "$watch"  # so that the shell does not report its end

# Spark's temporary files are removed when the task ends, too.
scratch="$(mktemp -d)"
trap 'kill -KILL "$watch"; rm -rf "$scratch" "$WHAT_IF_PROPERTIES"' EXIT
trap 'exit 143' TERM  # after Spark, which gets the signal as well, has ended
export SPARK_SUBMIT_OPTS="\"-Djava.io.tmpdir=$scratch\" ${SPARK_SUBMIT_OPTS:-}"

# Use the Spark of this Python environment, whatever variables the worker has exported.
unset SPARK_HOME PYSPARK_DRIVER_PYTHON
export PYSPARK_PYTHON="$PROGRAMS/python"
export SPARK_CONF_DIR="${SPARK_CONF_DIR:-$PWD/conf}" SPARK_DRIVER_MEMORY="${SPARK_DRIVER_MEMORY:-4g}"
JAVA_HOME="$(python -m jobs.runtime.java)" || exit 2
export JAVA_HOME

# A zip of its own for each task: never older than the code, never half written by another task.
python -m jobs.runtime.package "$scratch/project.zip"
(
  set -x  # the log shows the command
  exec "$PROGRAMS/spark-submit" --py-files "$scratch/project.zip" "$@"
)
