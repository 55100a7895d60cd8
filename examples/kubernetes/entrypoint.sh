#!/bin/sh
# Spark starts the pods of executors with the single argument `executor`, and says the rest in variables. Everything
# else is a command that is run as it is.
set -eu

# OpenShift gives each namespace user ids of its own; without a name Java starts no Spark
if ! whoami >/dev/null 2>&1 && [ -w /etc/passwd ]; then
  echo "headrace:x:$(id -u):0::/tmp:/bin/false" >>/etc/passwd
fi

[ "${1-}" = executor ] || exec "$@"

# Options of Java come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ..., each of them one word
set --
number=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$number+set}\" ]"; do
  eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
  number=$((number + 1))
done

exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
