"""Regular joins: all rows of both inputs are kept in state, and a change of either updates the result.

Records wait until a stretch of input has ended. Then each finds the rows of the other input that were there when it
came. A row is there from its insertion until its retraction; so nothing is followed record by record, and the changes
are those of processing one record after the other.
"""
