"""The output of ``EXPLAIN`` alone: Flink's plan in place of the one that is executed, costs, and advice.

Flink's plans have nodes that operators do not need: phases of batch mode, copies of rows for distinct values, sorts,
and operators of several inputs (``nodes``, ``aggregates``, ``over``, ``execution``). ``text`` writes plans, with costs
(``costs``, ``batch_costs``) and advice (``advice``) where a statement requests them. Nothing here is executed.
"""
