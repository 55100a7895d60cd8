"""A new version of the job, beside the old one: it reads all payments from the beginning, and finds more thieves.

    headrace run examples/card_fraud/replay.py headrace-demo/run-1/log

What is small and what is large for a thief is another question now. State that was made with the old answer does not
tell the new one, but the topic still has all payments. So the new version begins with the first one, with a consumer
group, checkpoints and topics of its own, whether the old version runs meanwhile or not. It says how far it is behind,
ends when it has caught up, and compares its alerts with those of the old version. Run again, it goes on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from job import build, checkpointed_in
from payments import lag, open_log, read

from headrace.datastream import StreamExecutionEnvironment

VERSION = "-v2"


def main() -> None:
    """Run the new version until it has caught up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path, help="the folder of the log, with payments")
    location = parser.parse_args().log.absolute()
    log = open_log(str(location), VERSION)

    configuration = checkpointed_in(location.with_name("checkpoints-v2"))
    configuration.set_string("pipeline.backlog.watermark-lag-threshold", "1 min")  # history is read in long epochs
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env, str(location), VERSION, small=2.00, large=400.00)
    client = env.execute_async("card fraud, version 2")
    ended = client.get_job_execution_result()
    shown = 0
    while not ended.done() and (behind := lag(log, f"fraud{VERSION}")):
        if behind != shown:
            print(f"  {behind:>9,} payments behind")
        shown = behind
        time.sleep(0.5)
    client.stop()
    ended.result()

    old, new = ({(alert["card"], alert["time"]) for alert in read(log, f"alerts{each}")} for each in ("", VERSION))
    print(
        f"  {len(new):>9,} alerts: {len(old & new)} of the {len(old)} of the old version, and {len(new - old)} others"
    )


if __name__ == "__main__":
    main()
