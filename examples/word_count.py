"""Counts words: the first job.

headrace run examples/word_count.py
"""

from headrace.datastream import StreamExecutionEnvironment

LINES = ["to be or not to be", "that is the question", "to sleep perchance to dream"]


def words(line: str) -> list[tuple[str, int]]:
    """Each word with a one."""
    return [(word, 1) for word in line.split()]


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(LINES).flat_map(words).key_by(lambda pair: pair[0]).sum(1).print()
env.execute("word count")
