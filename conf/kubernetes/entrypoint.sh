#!/usr/bin/env bash
# What a container runs: `driver ...` and `executor`, as Spark's scheduler for Kubernetes asks, or any other command.
set -euo pipefail
project="$(cd "$(dirname "$0")/../.." && pwd)"
export PATH="$project/.venv/bin:$PATH"
export PYSPARK_PYTHON="$project/.venv/bin/python"
SPARK_HOME="${SPARK_HOME:-$(python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')}"
JAVA_HOME="${JAVA_HOME:-$(cd "$project" && python -m jobs.runtime.java)}"
export SPARK_HOME JAVA_HOME

case "${1:-}" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  executor)
    mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | sed 's/^[^=]*=//')
    exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*:$PWD" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac
