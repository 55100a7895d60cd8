#!/bin/bash
# usage: run.sh CLASSES < cases.jsonl > cases-with-answers.jsonl
# FLINK_LIB: the folder pyflink/lib of apache-flink-libraries 2.3.0. M2: a Maven repository with flink-runtime:2.3.0:jar:tests,
# flink-core:2.3.0:jar:tests and flink-test-utils-junit:2.3.0. CLASSES: a folder for what javac writes.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
flink="${M2:-$HOME/.m2/repository}/org/apache/flink"
path="$FLINK_LIB/flink-dist-2.3.0.jar:$FLINK_LIB/flink-cep-2.3.0.jar"
path="$path:$flink/flink-runtime/2.3.0/flink-runtime-2.3.0-tests.jar:$flink/flink-core/2.3.0/flink-core-2.3.0-tests.jar"
path="$path:$flink/flink-test-utils-junit/2.3.0/flink-test-utils-junit-2.3.0.jar"
for jar in "$FLINK_LIB"/log4j-{api,core,slf4j-impl}-*.jar; do path="$path:$jar"; done
mkdir -p "$1"
javac -nowarn -cp "$path" -d "$1" "$here/Oracle.java" 2>&1 | grep -v "^Note" >&2
exec java -Xmx1g -XX:ActiveProcessorCount=1 -XX:+UseSerialGC -Dhang.ms="${HANG_MS:-20000}" \
  --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED \
  --add-opens=java.base/java.time=ALL-UNNAMED -Dlog4j2.level=ERROR \
  -Dlog4j.configurationFile="$here/log4j2.properties" -cp "$1:$path" Oracle 200
