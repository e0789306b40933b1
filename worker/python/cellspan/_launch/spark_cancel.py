# SPDX-License-Identifier: BSD-3-Clause
"""Runs beside the engine spark on the notebook's session, and cancels its job if that process is killed: a job that waits for slots
would hold some of the session's later, for agents that nobody wants.

Its first line of stdin tells how the session's JVM is reached. Then comes the end of stdin, or, if nothing is to be done, a second line.
"""
import json
import os
import sys


def active(jvm):
    """The JVM's context, as an Option of Scala. getOrCreate() might make one."""
    return getattr(getattr(jvm.org.apache.spark, "SparkContext$"), "MODULE$").getActive()


def main():
    told = json.loads(sys.stdin.readline())
    if sys.stdin.readline():
        return
    os.environ.update(told["environment"])
    from pyspark.java_gateway import launch_gateway
    context = active(launch_gateway().jvm)
    if context.isDefined():
        context.get().cancelJobGroup(told["group"])


if __name__ == "__main__":
    del sys.path[0]  # modules here have the names of packages
    main()
