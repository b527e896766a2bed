"""A scripted model server: a stand-in for a model that calls tools well, or badly on purpose.

It computes nothing. The text of a task chooses a script, and the script returns the model's turns:
hand-offs, tool calls that use earlier results, garbled JSON, loops, huge answers. So a test knows
every token of a run. It says `scripted` wherever it names itself.
"""
