#!/bin/sh
# Compiles the Hadoop formats: sh hadoop/build.sh JAR CLASSPATH
# CLASSPATH has Hadoop's client: `hadoop classpath`, or the jars that pyspark brings. Needs a JDK of 11 or newer.
set -eu
jar=$1 classpath=$2
sources=$(dirname "$0")/src
case $jar in */*) mkdir -p "${jar%/*}" ;; esac
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
trap 'exit 130' INT TERM
find "$sources" -name '*.java' -exec javac --release 11 -Xlint:all,-classfile,-path -Werror -d "$classes" -cp "$classpath" {} +
jar --create --file "$jar" -C "$classes" .
